// User ids for jailed processes, each of which has one that no other process of the server has.
#ifndef WARPLINE_SERVER_JAIL_UID_POOL_H_
#define WARPLINE_SERVER_JAIL_UID_POOL_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/mutex.h"

namespace warpline::jail {

// Both ends belong to it. Empty, with `first` 0, where processes have no ids of their own.
struct UidRange {
  uint32_t first = 0;
  uint32_t last = 0;

  bool empty() const { return first == 0; }
};

// Thread-safe.
class UidPool {
 public:
  explicit UidPool(UidRange range) : range_(range), next_(range.first) {}

  // An id that nobody has, and that was given back longest ago; 0 when there is none.
  uint32_t Take();
  void GiveBack(uint32_t uid);

 private:
  const UidRange range_;
  Mutex mu_;
  uint32_t next_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<uint32_t> taken_ ABSL_GUARDED_BY(mu_);
};

// The value of --worker_uids: "FIRST-LAST"; "none"; or "auto", which is a range of this server's
// where the process may set user ids, and none otherwise. INVALID_ARGUMENT for anything else;
// FAILED_PRECONDITION for a range whose ids this process may not set.
absl::StatusOr<UidRange> ParseWorkerUids(absl::string_view text);

}  // namespace warpline::jail

#endif  // WARPLINE_SERVER_JAIL_UID_POOL_H_
