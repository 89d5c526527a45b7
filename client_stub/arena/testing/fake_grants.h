// The server's side of an allocator's memory: every request is checked and recorded.
#ifndef WARPLINE_CLIENT_STUB_ARENA_TESTING_FAKE_GRANTS_H_
#define WARPLINE_CLIENT_STUB_ARENA_TESTING_FAKE_GRANTS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client_stub/session/counters.h"
#include "client_stub/session/memory_requests.h"
#include "client_stub/session/session_status.h"
#include "client_stub/session/session_terms.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe.
class FakeGrants : public MemoryRequests {
 public:
  // All are borrowed.
  FakeGrants(const SessionTerms* terms, const SessionStatus* status, Counters* counters)
      : terms_(terms), status_(status), counters_(counters) {}

  // Sets how much the server has for this session beyond what it granted; the quota unless set
  // lower.
  void SetServerLimit(uint64_t bytes);

  // Returns true when all of [va, va + bytes) is granted.
  bool Backed(uint64_t va, uint64_t bytes) const;
  uint64_t granted_bytes() const;
  int requests() const { return requests_.load(); }
  int refusals() const { return refusals_.load(); }
  int returns() const { return returns_.load(); }
  // Set when the allocator asked for or returned something that it must not.
  std::string complaint() const;
  std::vector<std::string> refused_because() const;

  CudaResult RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                           Grant* grant) override;
  void NoteRefusedMemory(CudaResult error, std::string_view why) override;
  void ReturnMemory(const Grant& grant) override;
  CudaResult CreateHandles(uint64_t, uint64_t, uint64_t, uint64_t*) override {
    return CudaResult::kNotSupported;
  }
  void ReturnHandle(uint64_t) override {}
  CudaResult Share(const SharedWhat&, SharedMemory*) override { return CudaResult::kNotSupported; }
  void EndSharedEvent(uint64_t) override {}
  CudaResult OpenShared(const std::string&, uint64_t, uint64_t) override {
    return CudaResult::kNotSupported;
  }
  CudaResult ShareHostMemory(HostSharing, uint64_t, uint64_t, UniqueFd*) override {
    return CudaResult::kNotSupported;
  }
  CudaResult ReadBack(void*, uint64_t, uint64_t) override { return CudaResult::kNotSupported; }

 protected:
  // Grants the initial grant of the terms.
  void Begin(uint64_t server_limit);

 private:
  const SessionTerms* const terms_;
  const SessionStatus* const status_;
  Counters* const counters_;
  std::atomic<int> requests_{0};
  std::atomic<int> refusals_{0};
  std::atomic<int> returns_{0};

  mutable Mutex mu_;
  uint64_t server_limit_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t granted_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, uint64_t> grants_ ABSL_GUARDED_BY(mu_);
  std::string complaint_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> refused_because_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_ARENA_TESTING_FAKE_GRANTS_H_
