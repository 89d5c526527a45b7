// The memory of a fake session: as much of each device as it has, granted as it is asked for.
#ifndef WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "client_stub/session/memory_requests.h"
#include "client_stub/session/session_terms.h"
#include "common/mutex.h"
#include "proto/devices.h"

namespace warpline::stub {

// Thread-safe.
class FakeMemory : public MemoryRequests {
 public:
  // `terms` is borrowed.
  explicit FakeMemory(const SessionTerms* terms) : terms_(terms) {}

  // The number of handles that exist, and how often handles were asked for.
  size_t handles() const;
  int handle_requests() const;

  CudaResult RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                           Grant* grant) override;
  void NoteRefusedMemory(CudaResult, std::string_view) override {}
  void ReturnMemory(const Grant& grant) override;
  CudaResult CreateHandles(uint64_t first, uint64_t bytes, uint64_t count,
                           uint64_t* created) override;
  void ReturnHandle(uint64_t handle) override;
  // Every offer gets another token. Only what was offered here can be opened, by a handle of the
  // same device.
  CudaResult Share(const SharedWhat& what, SharedMemory* shared) override;
  void EndSharedEvent(uint64_t) override {}
  CudaResult OpenShared(const std::string& token, uint64_t handle, uint64_t bytes) override;
  // From now on host memory is shared, which it is not at first.
  void ShareMemory();
  // The same for one piece of staging memory of this size, and for nothing else.
  void ShareWindow(uint64_t bytes);
  CudaResult ShareHostMemory(HostSharing what, uint64_t va, uint64_t bytes, UniqueFd* fd) override;
  CudaResult ReadBack(void*, uint64_t, uint64_t) override { return CudaResult::kNotSupported; }

 private:
  struct Offer {
    uint64_t bytes = 0;
    uint32_t device = 0;
  };

  uint32_t DeviceOf(uint64_t va) const;
  uint64_t LeftOf(uint32_t device) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SessionTerms* const terms_;

  mutable Mutex mu_;
  std::array<uint64_t, kMaxSessionDevices> granted_bytes_ ABSL_GUARDED_BY(mu_) = {};
  std::map<uint64_t, uint64_t> handles_ ABSL_GUARDED_BY(mu_);  // To bytes.
  bool shares_memory_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t window_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool window_taken_ ABSL_GUARDED_BY(mu_) = false;
  int handle_requests_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, Offer> offers_ ABSL_GUARDED_BY(mu_);  // By token.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_MEMORY_H_
