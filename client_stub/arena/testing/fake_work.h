// The part of an allocator's session besides memory, without a server: commands retire when the
// test says so, and fences of freed memory are reported then.
#ifndef WARPLINE_CLIENT_STUB_ARENA_TESTING_FAKE_WORK_H_
#define WARPLINE_CLIENT_STUB_ARENA_TESTING_FAKE_WORK_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "client_stub/session/commands.h"
#include "client_stub/session/counters.h"
#include "client_stub/session/notices.h"
#include "client_stub/session/session_status.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe.
class FakeWork : public Commands, public Notices, public SessionStatus {
 public:
  // `counters` is borrowed.
  explicit FakeWork(Counters* counters) : counters_(counters) {}

  // Sends a command of the application on `stream`.
  void Work(uint64_t stream);
  // Completes what was sent on `stream`, or everything; reports fences that are then complete.
  void RetireStream(uint64_t stream);
  void RetireAll();
  int fences() const { return fences_sent_.load(); }
  void Fail(CudaResult error) { error_.store(static_cast<int>(error)); }

  CudaResult CopyOut(uint64_t, void*, uint64_t, uint64_t, bool, uint64_t*) override {
    return CudaResult::kNotSupported;
  }
  CudaResult CopyStaged(uint64_t, void*, const void*, uint64_t, uint64_t, uint64_t*) override {
    return CudaResult::kNotSupported;
  }
  CudaResult CopyBoxOut(uint64_t, const BoxPlace&, const BoxPlace&, const BoxExtent&, bool,
                        uint64_t*) override {
    return CudaResult::kNotSupported;
  }
  CudaResult CopyArrayOut(const cmd::CopyFromArray&, const BoxPlace&, bool, uint64_t*) override {
    return CudaResult::kNotSupported;
  }
  CudaResult WatchWithin(WaitKind, absl::Duration, absl::FunctionRef<bool()>) override {
    return CudaResult::kNotSupported;
  }
  uint64_t last_seq() const override { return last_seq_.load(); }
  bool Retired(uint64_t stream, uint64_t seq) const override;
  void ForgetStream(uint64_t) override {}

  void SetFreedCallback(uint32_t device, Callback callback) override;
  void SetUnmappedCallback(Callback) override {}
  void SetHostDueCallback(Callback) override {}

  CudaResult error() const override { return static_cast<CudaResult>(error_.load()); }
  CudaResult TakeDeferred() override { return CudaResult::kSuccess; }
  CudaResult TakeFailureOf(uint64_t) override { return CudaResult::kSuccess; }
  void WriteOutput() override {}
  bool ExpectsOutput() const override { return false; }

 protected:
  uint64_t Append(CommandId id, const void* body, size_t body_bytes,
                  std::string_view tail) override;
  CudaResult RoundTrip(WaitKind kind, CommandId id, const void* body, size_t body_bytes,
                       std::string_view tail, std::string* fields) override;
  CudaResult WatchOrCall(WaitKind kind, uint64_t, uint64_t, CommandId id, const void* body,
                         size_t body_bytes) override {
    return RoundTrip(kind, id, body, body_bytes, {}, nullptr);
  }
  std::unique_ptr<AnnouncedWait> AnnounceWait(WaitKind, uint64_t, uint64_t, CommandId, const void*,
                                              size_t) override {
    return nullptr;  // Nobody does.
  }

 private:
  uint64_t AllRetired() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReportFences() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RetireAllLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Counters* const counters_;
  std::atomic<int> error_{0};
  std::atomic<uint64_t> last_seq_{0};
  std::atomic<int> fences_sent_{0};

  mutable Mutex mu_;
  std::map<uint32_t, Callback> freed_ ABSL_GUARDED_BY(mu_);  // By device.
  // Outstanding commands: number to stream; per stream, the latest complete one.
  std::map<uint64_t, uint64_t> outstanding_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, uint64_t> stream_retired_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, uint64_t> fences_ ABSL_GUARDED_BY(mu_);  // Number to token.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_ARENA_TESTING_FAKE_WORK_H_
