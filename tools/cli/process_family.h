// The processes that a command has left running, and all that these start.
#ifndef WARPLINE_TOOLS_CLI_PROCESS_FAMILY_H_
#define WARPLINE_TOOLS_CLI_PROCESS_FAMILY_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace warpline::cli {

struct FamilyMember {
  pid_t pid = 0;
  uint64_t started = 0;  // In ticks since the boot, which tells it from a later one of this number.
  std::string name = {};
};

// Goes by the parents that /proc shows: a process whose parent ends between two looks, and which
// was not there at the first, is lost. A process runs as long as one of its threads does.
// Thread-compatible.
class ProcessFamily {
 public:
  // Returns the running descendants of the process `ancestor`: without itself, and without those
  // that `others` has and what these have started.
  static ProcessFamily Of(pid_t ancestor, const ProcessFamily& others = {});
  // Reads what Text() has written. INVALID_ARGUMENT for anything else.
  static absl::StatusOr<ProcessFamily> Parse(const std::vector<std::string>& words);

  // Looks again: drops those that have ended, adds what the others have started. Returns whether
  // there are any.
  bool Look();
  const std::vector<FamilyMember>& members() const { return members_; }
  // A word for each member, for Parse(). The names are left out.
  std::vector<std::string> Text() const;

 private:
  std::vector<FamilyMember> members_;
};

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_PROCESS_FAMILY_H_
