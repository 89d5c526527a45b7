// A session without a server, for tests of the allocator: commands retire when the test says so,
// and every request for memory is checked and recorded.
#ifndef WARPLINE_CLIENT_STUB_ARENA_TESTING_FAKE_SESSION_H_
#define WARPLINE_CLIENT_STUB_ARENA_TESTING_FAKE_SESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client_stub/session/session.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe.
class FakeSession final : public Session {
 public:
  static constexpr uint64_t kArenaBase = 1ull << 44;

  // Every device has this quota; the server's limit is for all of them together.
  FakeSession(uint64_t quota, uint64_t initial_bytes, uint64_t arena_bytes = 1ull << 40,
              uint32_t devices = 1);

  // Sends a command of the application on `stream`.
  void Work(uint64_t stream);
  // Completes what was sent on `stream`, or everything; reports fences that are then complete.
  void RetireStream(uint64_t stream);
  void RetireAll();

  // Sets how much the server has for this session beyond what it granted; the quota unless set
  // lower.
  void SetServerLimit(uint64_t bytes);

  // True when all of [va, va + bytes) is granted.
  bool Backed(uint64_t va, uint64_t bytes) const;
  uint64_t granted_bytes() const;
  int requests() const { return requests_.load(); }
  int refusals() const { return refusals_.load(); }
  int returns() const { return returns_.load(); }
  int fences() const { return fences_sent_.load(); }
  // Set when the allocator asked for or returned something that it must not.
  std::string complaint() const;
  void Fail(CudaResult error) { error_.store(static_cast<int>(error)); }

  std::span<const RemoteDevice> devices() const override { return devices_; }
  uint64_t arena_base() const override { return kArenaBase; }
  uint64_t arena_bytes() const override { return arena_bytes_; }
  const Grant& initial_grant() const override { return initial_grant_; }
  Counters& counters() override { return counters_; }
  CudaResult error() const override { return static_cast<CudaResult>(error_.load()); }
  CudaResult TakeDeferred() override { return CudaResult::kSuccess; }
  void BeginGroup() override {}
  void EndGroup() override {}
  CudaResult CopyOut(uint64_t, void*, uint64_t, uint64_t, bool, uint64_t*) override {
    return CudaResult::kNotSupported;
  }
  CudaResult CopyBoxOut(uint64_t, const BoxPlace&, const BoxPlace&, const BoxExtent&, bool,
                        uint64_t*) override {
    return CudaResult::kNotSupported;
  }
  void SetHostDueCallback(std::function<void(uint64_t token)>) override {}
  uint64_t last_seq() const override { return last_seq_.load(); }
  bool Retired(uint64_t stream, uint64_t seq) const override;
  void ForgetStream(uint64_t) override {}
  void SetFreedCallback(uint32_t device, std::function<void(uint64_t token)> callback) override;
  CudaResult RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                           Grant* grant) override;
  void NoteRefusedMemory(CudaResult, std::string_view why) override {
    MutexLock lock(&mu_);
    refused_because_.emplace_back(why);
  }
  std::vector<std::string> refused_because() const {
    MutexLock lock(&mu_);
    return refused_because_;
  }
  void ReturnMemory(const Grant& grant) override;
  void Close(absl::Duration) override {}

 protected:
  uint64_t Append(CommandId id, const void* body, size_t body_bytes,
                  std::string_view tail) override;
  CudaResult RoundTrip(WaitKind kind, CommandId id, const void* body, size_t body_bytes,
                       std::string_view tail, std::string* fields) override;

 private:
  uint64_t AllRetired() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReportFences() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RetireAllLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::vector<RemoteDevice> devices_;
  const uint64_t arena_bytes_;
  Grant initial_grant_;
  Counters counters_;
  std::atomic<int> error_{0};
  std::atomic<uint64_t> last_seq_{0};
  std::atomic<int> requests_{0};
  std::atomic<int> refusals_{0};
  std::atomic<int> returns_{0};
  std::atomic<int> fences_sent_{0};

  mutable Mutex mu_;
  std::map<uint32_t, std::function<void(uint64_t)>> freed_ ABSL_GUARDED_BY(mu_);  // By device.
  uint64_t server_limit_ ABSL_GUARDED_BY(mu_);
  uint64_t granted_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, uint64_t> grants_ ABSL_GUARDED_BY(mu_);
  // Outstanding commands: number to stream; per stream, the latest complete one.
  std::map<uint64_t, uint64_t> outstanding_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, uint64_t> stream_retired_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, uint64_t> fences_ ABSL_GUARDED_BY(mu_);  // Number to token.
  std::string complaint_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> refused_because_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_ARENA_TESTING_FAKE_SESSION_H_
