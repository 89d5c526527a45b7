// The events that this process has offered to others, and the tokens that it has to take back.
#ifndef WARPLINE_CLIENT_STUB_SESSION_MEMORY_SHARED_EVENTS_H_
#define WARPLINE_CLIENT_STUB_SESSION_MEMORY_SHARED_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe.
class SharedEvents {
 public:
  // Returns the event's token; empty when it has none.
  std::string TokenOf(uint64_t event) const;
  // Gives the event a token, unless another thread has done so, and returns the one that it has.
  std::string SetToken(uint64_t event, const std::string& token);
  // The event is gone. Does nothing for one that was not offered.
  void End(uint64_t event);

  // Moves out tokens of events that are gone, at most `most` of them.
  std::vector<std::string> TakeWithdrawn(size_t most);

 private:
  mutable Mutex mu_;
  absl::flat_hash_map<uint64_t, std::string> tokens_ ABSL_GUARDED_BY(mu_);  // By event.
  std::vector<std::string> withdrawn_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_MEMORY_SHARED_EVENTS_H_
