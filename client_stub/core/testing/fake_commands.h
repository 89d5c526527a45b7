// Commands without a server: they are kept, round trips are answered at once, and commands retire
// when the test says so.
#ifndef WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_COMMANDS_H_
#define WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_COMMANDS_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client_stub/session/commands.h"
#include "client_stub/session/session_status.h"
#include "common/mutex.h"

namespace warpline::stub {

// A wait that is over.
class FakeWait final : public AnnouncedWait {
 public:
  explicit FakeWait(CudaResult result) : result_(result) {}
  CudaResult Wait() override { return result_; }

 private:
  const CudaResult result_;
};

// Thread-safe.
class FakeCommands : public Commands {
 public:
  struct Sent {
    CommandId id;
    std::string body;
    std::string tail;
  };

  // `status` is borrowed; once it has an error nothing is sent.
  explicit FakeCommands(const SessionStatus* status) : status_(status) {}

  // From now on everything that is sent is complete (`complete`), or nothing more is.
  void SetComplete(bool complete);
  // Answers a round trip instead of the default: a KernelFind of name "kernel" with parameters of
  // 8 and 4 bytes, a VariableFind or GlobalFind of "global" at kGlobalAddress, everything else
  // plain success.
  using Answer = std::function<CudaResult(const Sent&, std::string* fields)>;
  void SetAnswer(CommandId id, Answer answer);

  // From now on calls `before` before a one-way command is sent, on the thread that sends it.
  void SetBeforeSend(std::function<void(CommandId)> before);

  // From now on stands in for the device: called for each copy on it that is sent.
  void SetOnCopy(std::function<void(const cmd::CopyOnDevice&)> copy);

  std::vector<Sent> sent() const;
  // Returns how often `id` was sent.
  int Count(CommandId id) const;
  // Returns the latest `Command` that was sent, as its struct, with its tail.
  template <typename Command>
  Command Latest(std::string* tail = nullptr) const;

  // Nothing is mapped there: programs begin higher, and sanitizers leave these addresses free.
  static constexpr uint64_t kGlobalAddress = 0x550000001000;
  static constexpr uint64_t kGlobalBytes = 64;
  static constexpr uint32_t kMultiprocessors = 132;  // Groups of these are multiples of 8.
  // The block that every VariableBlockFind finds. The variable "global" lies in it.
  static constexpr uint64_t kBlockAddress = kGlobalAddress - 0x1000;
  static constexpr uint64_t kBlockBytes = 0x4000;
  static constexpr uint64_t kTextureElements = 1 << 27;   // Of a LinearTextureWidth.
  static constexpr uint64_t kConditional = 0x7100000042;  // The number of every conditional.
  static constexpr uint64_t kFirstTexture = 0x5001;       // The number of every texture object.

  CudaResult CopyOut(uint64_t stream, void* dst, uint64_t src, uint64_t bytes, bool wait,
                     uint64_t* seq) override;
  CudaResult CopyStaged(uint64_t stream, void* dst, const void* staged, uint64_t src,
                        uint64_t bytes, uint64_t* seq) override;
  CudaResult CopyBoxOut(uint64_t stream, const BoxPlace& dst, const BoxPlace& src,
                        const BoxExtent& extent, bool wait, uint64_t* seq) override;
  CudaResult CopyArrayOut(const cmd::CopyFromArray& command, const BoxPlace& dst, bool wait,
                          uint64_t* seq) override;
  // Time does not pass here: what is not done takes too long.
  CudaResult WatchWithin(WaitKind, absl::Duration, absl::FunctionRef<bool()> done) override {
    return done() ? CudaResult::kSuccess : CudaResult::kTimeout;
  }
  uint64_t last_seq() const override;
  bool Retired(uint64_t stream, uint64_t seq) const override;
  void ForgetStream(uint64_t) override {}

 protected:
  uint64_t Append(CommandId id, const void* body, size_t body_bytes,
                  std::string_view tail) override;
  CudaResult RoundTrip(WaitKind kind, CommandId id, const void* body, size_t body_bytes,
                       std::string_view tail, std::string* fields) override;
  // Asks what is not complete, as without a worker on this host.
  CudaResult WatchOrCall(WaitKind kind, uint64_t stream, uint64_t seq, CommandId id,
                         const void* body, size_t body_bytes) override;
  std::unique_ptr<AnnouncedWait> AnnounceWait(WaitKind kind, uint64_t stream, uint64_t seq,
                                              CommandId id, const void* body,
                                              size_t body_bytes) override {
    return std::make_unique<FakeWait>(WatchOrCall(kind, stream, seq, id, body, body_bytes));
  }

  // Forgets what was sent, and answers as at the beginning.
  void ClearCommands();
  // Returns the tokens of all MemoryUnmap commands that were sent since the last time.
  std::vector<uint64_t> TakeUnmapping();

 private:
  uint64_t Keep(CommandId id, const void* body, size_t body_bytes, std::string_view tail);

  const SessionStatus* const status_;

  mutable Mutex mu_;
  std::vector<Sent> sent_ ABSL_GUARDED_BY(mu_);
  uint64_t last_seq_ ABSL_GUARDED_BY(mu_) = 0;
  bool complete_ ABSL_GUARDED_BY(mu_) = true;
  uint64_t complete_seq_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<uint64_t> unmapping_ ABSL_GUARDED_BY(mu_);
  std::function<void(CommandId)> before_send_ ABSL_GUARDED_BY(mu_);
  std::function<void(const cmd::CopyOnDevice&)> on_copy_ ABSL_GUARDED_BY(mu_);
  std::map<CommandId, Answer> answers_ ABSL_GUARDED_BY(mu_);
};

template <typename Command>
Command FakeCommands::Latest(std::string* tail) const {
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

#endif  // WARPLINE_CLIENT_STUB_CORE_TESTING_FAKE_COMMANDS_H_
