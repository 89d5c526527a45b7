// The credentials with which somebody was served, so that whoever has one does not wait behind
// those that have none. They decide about nothing else.
#ifndef WARPLINE_SCHEDULER_KNOWN_CREDENTIALS_H_
#define WARPLINE_SCHEDULER_KNOWN_CREDENTIALS_H_

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "common/mutex.h"

namespace warpline::scheduler {

// Thread-safe. Keeps hashes, and forgets the oldest of too many.
class KnownCredentials {
 public:
  static constexpr size_t kMost = 16384;

  void Note(std::string_view credential);
  // Returns the hash of a credential that is known, and otherwise nothing.
  std::string Find(std::string_view credential) const;

 private:
  mutable Mutex mu_;
  absl::flat_hash_set<std::string> hashes_ ABSL_GUARDED_BY(mu_);
  std::deque<std::string> by_age_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_KNOWN_CREDENTIALS_H_
