// The record of earlier runs: which programs could not do everything in the guarded tier, and what
// stood in the way. Such a program gets a process of its own the next time.
#ifndef WARPLINE_COMMON_TIER_TIER_RECORD_H_
#define WARPLINE_COMMON_TIER_TIER_RECORD_H_

#include <string>
#include <string_view>

#include "common/tier/keyed_lines.h"

namespace warpline::tier {

// Thread-safe.
class TierRecord {
 public:
  // `folder` is CacheFolder(); empty for a record that keeps nothing.
  explicit TierRecord(const std::string& folder);

  // What stood in the program's way; empty if nothing is known. `program` is of IdentifyProgram().
  std::string Find(const std::string& program) const;
  // Returns false if it cannot be kept.
  bool Add(const std::string& program, std::string_view obstacle) const;

 private:
  const KeyedLines lines_;
};

}  // namespace warpline::tier

#endif  // WARPLINE_COMMON_TIER_TIER_RECORD_H_
