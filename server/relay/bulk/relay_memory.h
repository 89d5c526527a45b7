// The parts of its session's host memory that a relay's bulk connections reach: one for each slot,
// as the server hands it out.
#ifndef WARPLINE_SERVER_RELAY_BULK_RELAY_MEMORY_H_
#define WARPLINE_SERVER_RELAY_BULK_RELAY_MEMORY_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "proto/frames.h"
#include "proto/session.pb.h"

namespace warpline::relay {

// Thread-safe. What Reach() returns stays mapped as long as the object lives.
class RelayMemory {
 public:
  // Asks the server; does not block.
  using Ask = std::function<absl::Status(uint32_t slot, uint64_t va, uint64_t bytes)>;

  explicit RelayMemory(Ask ask) : ask_(std::move(ask)) {}
  ~RelayMemory();
  RelayMemory(const RelayMemory&) = delete;
  RelayMemory& operator=(const RelayMemory&) = delete;

  // Has the slot reach [va, va + bytes) from now on, and returns the server's answer; at once when
  // it does already. Waits `patience` at most, and until `given_up`. One thread at a time for each
  // slot, and one range as long as the relay lives. UNAVAILABLE when the server does not answer,
  // INVALID_ARGUMENT for another range.
  absl::StatusOr<warpline_internal::HostMemoryAnswer> Get(uint32_t slot, uint64_t va,
                                                          uint64_t bytes, absl::Duration patience,
                                                          const std::atomic<bool>& given_up);
  // The server's answer. INVALID_ARGUMENT for one that is not due, or with memory that is not what
  // was asked for.
  absl::Status OnAnswer(uint32_t slot, const warpline_internal::HostMemoryAnswer& answer,
                        UniqueFd fd);
  // No answer will come any more.
  void End();
  // Has those that wait look whether they have given up.
  void Wake();

  // Where the range is mapped; null when the slot does not reach all of it.
  char* Reach(uint32_t slot, uint64_t va, uint64_t bytes);

 private:
  struct Slot {
    uint64_t va = 0;
    uint64_t bytes = 0;
    char* mapped = nullptr;
    bool asked = false;
    std::optional<warpline_internal::HostMemoryAnswer> answer;
  };

  const Ask ask_;
  Mutex mu_;
  CondVar changed_;
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  std::array<Slot, kMaxBulkConnections> slots_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::relay

#endif  // WARPLINE_SERVER_RELAY_BULK_RELAY_MEMORY_H_
