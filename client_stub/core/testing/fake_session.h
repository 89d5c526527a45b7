// A session without a server: it keeps the commands that are sent, answers round trips at once, and
// retires commands when it is told to.
#ifndef WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_SESSION_H_
#define WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_SESSION_H_

#include <array>
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
class FakeSession : public Session {
 public:
  struct Sent {
    CommandId id;
    std::string body;
    std::string tail;
  };

  // The devices have an H200's limits and 1 GiB each, granted as it is asked for. Only the first
  // two can access each other's memory.
  explicit FakeSession(uint32_t devices = 1);

  // ---- For tests.

  // From now on everything that is sent is complete (`complete`), or nothing more is.
  void SetComplete(bool complete);
  void SetError(CudaResult error);
  void SetDeferred(CudaResult error);
  // Sets the features that were agreed on with the server, and where the server is. At first there
  // are no features, and the server is on this host.
  void SetFeatures(uint64_t features, bool same_host);
  // Answers a round trip instead of the default: a KernelFind of name "kernel" with parameters of
  // 8 and 4 bytes, a VariableFind or GlobalFind of "global" at kGlobalAddress, everything else
  // plain success.
  using Answer = std::function<CudaResult(const Sent&, std::string* fields)>;
  void SetAnswer(CommandId id, Answer answer);

  // From now on calls `before` before a one-way command is sent, on the thread that sends it.
  void SetBeforeSend(std::function<void(CommandId)> before);

  // Sends the worker's notice that a HostCall's turn has come; kNoToken says that the session is
  // lost.
  void HostDue(uint64_t token);

  // Sends the worker's notices for all MemoryUnmap commands that were sent since the last time.
  void ReportUnmapped();
  // The number of handles that exist, and how often handles were asked for.
  size_t handles() const;
  int handle_requests() const;

  std::vector<Sent> sent() const;
  // Returns how often `id` was sent.
  int Count(CommandId id) const;
  // Returns the latest `Command` that was sent, as its struct, with its tail.
  template <typename Command>
  Command Latest(std::string* tail = nullptr) const;
  bool closed() const;
  void Clear();

  static constexpr uint64_t kArenaBase = uint64_t{1} << 44;
  static constexpr uint64_t kArenaBytes = uint64_t{1} << 32;
  static constexpr uint64_t kGlobalAddress = 0x7000001000;
  static constexpr uint64_t kGlobalBytes = 64;
  static constexpr uint64_t kConditional = 0x7100000042;  // The number of every conditional.
  static constexpr uint64_t kFirstTexture = 0x5001;       // The number of every texture object.

  // ---- Session

  std::span<const RemoteDevice> devices() const override { return devices_; }
  uint64_t features() const override { return features_; }
  bool same_host() const override { return same_host_; }
  uint64_t arena_base() const override { return kArenaBase; }
  uint64_t arena_bytes() const override { return kArenaBytes; }
  const Grant& initial_grant() const override { return grant_; }
  Counters& counters() override { return counters_; }
  CudaResult error() const override;
  CudaResult TakeDeferred() override;
  void BeginGroup() override {}
  void EndGroup() override {}
  CudaResult CopyOut(uint64_t stream, void* dst, uint64_t src, uint64_t bytes, bool wait,
                     uint64_t* seq) override;
  CudaResult CopyBoxOut(uint64_t stream, const BoxPlace& dst, const BoxPlace& src,
                        const BoxExtent& extent, bool wait, uint64_t* seq) override;
  CudaResult CopyArrayOut(const cmd::CopyFromArray& command, const BoxPlace& dst, bool wait,
                          uint64_t* seq) override;
  void SetHostDueCallback(std::function<void(uint64_t token)> callback) override;
  uint64_t last_seq() const override;
  bool Retired(uint64_t stream, uint64_t seq) const override;
  void ForgetStream(uint64_t) override {}
  void SetFreedCallback(uint32_t, std::function<void(uint64_t token)>) override {}
  CudaResult RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                           Grant* grant) override;
  void ReturnMemory(const Grant& grant) override;
  CudaResult CreateHandles(uint64_t first, uint64_t bytes, uint64_t count,
                           uint64_t* created) override;
  void ReturnHandle(uint64_t handle) override;
  // Every offer gets another token. Only what was offered here can be opened, by a handle of the
  // same device.
  CudaResult Share(const SharedWhat& what, SharedMemory* shared) override;
  CudaResult OpenShared(const std::string& token, uint64_t handle, uint64_t bytes) override;
  void SetUnmappedCallback(std::function<void(uint64_t token)> callback) override;
  void Close(absl::Duration) override;

 protected:
  uint64_t Append(CommandId id, const void* body, size_t body_bytes,
                  std::string_view tail) override;
  CudaResult RoundTrip(WaitKind kind, CommandId id, const void* body, size_t body_bytes,
                       std::string_view tail, std::string* fields) override;

 private:
  uint64_t Keep(CommandId id, const void* body, size_t body_bytes, std::string_view tail);

  std::atomic<uint64_t> features_{0};
  std::atomic<bool> same_host_{true};
  uint32_t DeviceOf(uint64_t va) const;
  uint64_t LeftOf(uint32_t device) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::vector<RemoteDevice> devices_;
  Grant grant_;
  Counters counters_;

  mutable Mutex mu_;
  std::vector<Sent> sent_ ABSL_GUARDED_BY(mu_);
  uint64_t last_seq_ ABSL_GUARDED_BY(mu_) = 0;
  bool complete_ ABSL_GUARDED_BY(mu_) = true;
  uint64_t complete_seq_ ABSL_GUARDED_BY(mu_) = 0;
  CudaResult error_ ABSL_GUARDED_BY(mu_) = CudaResult::kSuccess;
  CudaResult deferred_ ABSL_GUARDED_BY(mu_) = CudaResult::kSuccess;
  std::array<uint64_t, kMaxSessionDevices> granted_bytes_ ABSL_GUARDED_BY(mu_) = {};
  std::map<uint64_t, uint64_t> handles_ ABSL_GUARDED_BY(mu_);  // To bytes.
  int handle_requests_ ABSL_GUARDED_BY(mu_) = 0;
  struct Offer {
    uint64_t bytes = 0;
    uint32_t device = 0;
  };
  std::map<std::string, Offer> offers_ ABSL_GUARDED_BY(mu_);  // By token.
  std::vector<uint64_t> unmapping_ ABSL_GUARDED_BY(mu_);
  std::function<void(uint64_t)> unmapped_ ABSL_GUARDED_BY(mu_);
  std::function<void(uint64_t)> host_due_ ABSL_GUARDED_BY(mu_);
  std::function<void(CommandId)> before_send_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::map<CommandId, Answer> answers_ ABSL_GUARDED_BY(mu_);
};

template <typename Command>
Command FakeSession::Latest(std::string* tail) const {
  MutexLock lock(&mu_);
  Command command = {};
  for (auto it = sent_.rbegin(); it != sent_.rend(); ++it) {
    if (it->id != CommandTraits<Command>::kId) continue;
    std::memcpy(&command, it->body.data(), sizeof(command));
    if (tail != nullptr) *tail = it->tail;
    break;
  }
  return command;
}

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_SESSION_H_
