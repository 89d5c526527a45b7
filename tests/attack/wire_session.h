// A session whose client sends what it likes, and understands the answers.
#ifndef WARPLINE_TESTS_ATTACK_WIRE_SESSION_H_
#define WARPLINE_TESTS_ATTACK_WIRE_SESSION_H_

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/session.pb.h"
#include "proto/wire.h"
#include "tests/attack/wire.h"
#include "tests/hostile/raw_client.h"

namespace warpline::attack {

inline constexpr uint64_t kMiB = 1ull << 20;
// Where the arena of a session lies, and the memory that it has from the start.
inline constexpr uint64_t kArena = 0x300000000000;
inline constexpr uint64_t kArenaBytes = 4096 * kMiB;
inline constexpr uint64_t kOwn = kArena + 2 * kMiB;

// Thread-compatible.
class WireSession {
 public:
  // Errors are those of the server's refusal.
  static absl::StatusOr<std::unique_ptr<WireSession>> Open(const WireTarget& target,
                                                           bool resumable = false);
  // At another arena than kArena. In the process that sessions of the guarded tier share, waits
  // until it is free.
  static absl::StatusOr<std::unique_ptr<WireSession>> OpenAt(const WireTarget& target,
                                                             uint64_t arena,
                                                             bool resumable = false);
  static absl::StatusOr<std::unique_ptr<WireSession>> OpenWith(
      const WireTarget& target, const warpline_internal::Hello& hello);

  hostile::RawClient* client() { return client_.get(); }
  // Takes the client out, as one that moves to another connection does.
  void Drop() { client_.reset(); }
  const warpline_internal::Welcome& welcome() const { return welcome_; }
  uint64_t own_bytes() const { return welcome_.initial_memory().bytes(); }

  // Adds a command to those that Submit() sends, and returns its number.
  template <typename Command>
  uint64_t Add(const Command& command, std::string_view tail = {}) {
    char* const at = AppendCommand(command, tail.size(), &commands_);
    if (!tail.empty()) std::memcpy(at, tail.data(), tail.size());
    ++count_;
    return next_seq_++;
  }
  size_t pending_bytes() const { return commands_.size(); }
  void Submit();

  // The CUresult of a round trip; 0 is success. UNAVAILABLE when the session ends instead.
  absl::StatusOr<int> Await(uint64_t seq);
  template <typename Command>
  absl::StatusOr<int> Call(const Command& command, std::string_view tail = {}) {
    const uint64_t seq = Add(command, tail);
    Submit();
    return Await(seq);
  }
  // The CUresult of a one-way command: what the worker says of it before all work is complete.
  template <typename Command>
  absl::StatusOr<int> Do(const Command& command, std::string_view tail = {}) {
    const uint64_t seq = Add(command, tail);
    const absl::StatusOr<int> synced = Call(cmd::ContextSync{});
    if (const auto failed = failures_.find(seq); failed != failures_.end()) return failed->second;
    return synced;
  }
  // What followed the CUresult in the answer to `seq`, without padding.
  std::string TakeReply(uint64_t seq);
  // Copies from the device.
  absl::StatusOr<std::string> Read(uint64_t address, uint64_t bytes);
  absl::StatusOr<warpline_internal::MemoryGrant> Ask(
      const warpline_internal::MemoryRequest& request);
  // Sends an image and loads it as a module.
  absl::StatusOr<int> Load(uint64_t module, std::string_view image);
  // How many commands have failed that had no answer of their own.
  size_t failures() const { return failures_.size(); }
  // Text that kernels of this session printed.
  const std::string& output() const { return output_; }

 private:
  WireSession() = default;
  // Handles one frame.
  absl::Status Take();
  absl::Status TakeReplies(std::string_view payload);

  std::unique_ptr<hostile::RawClient> client_;
  warpline_internal::Welcome welcome_;
  uint64_t next_seq_ = 1;
  uint64_t submitted_ = 1;  // The number of the first command that was not sent.
  uint32_t count_ = 0;
  std::string commands_;
  std::map<uint64_t, std::pair<int, std::string>> replies_;
  std::map<uint64_t, int> failures_;
  std::map<uint64_t, std::string> copied_;
  std::map<uint64_t, warpline_internal::MemoryGrant> grants_;
  std::string output_;
};

warpline_internal::Hello HonestHello(bool resumable = false);
warpline_internal::MemoryRequest Request(uint64_t id, uint64_t va, uint64_t bytes);

// Stopped when the server or the worker refused, or ended the session in order; `what` says what
// was asked. A worker that crashed of it did not refuse it.
WireResult JudgeRefusal(const absl::StatusOr<int>& result, const std::string& what);

}  // namespace warpline::attack

#endif  // WARPLINE_TESTS_ATTACK_WIRE_SESSION_H_
