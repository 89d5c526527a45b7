// The server's end of a session for tests: it welcomes, acknowledges, answers and retires at once,
// or holds back what a test wants held back.
#ifndef WARPLINE_CLIENT_STUB_SESSION_TESTING_FAKE_SERVER_H_
#define WARPLINE_CLIENT_STUB_SESSION_TESTING_FAKE_SERVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client_stub/session/opening/session_impl.h"
#include "client_stub/session/testing/client_link.h"
#include "common/mutex.h"
#include "proto/session.pb.h"
#include "proto/wire.h"

namespace warpline::stub {

// Thread-safe. Serves one session at a time and must outlive it.
class FakeServer {
 public:
  struct Command {
    uint64_t seq;
    CommandId id;
    std::string body;
  };

  FakeServer();

  // Opens sessions over a LoopbackChannel.
  Dialer MakeDialer();

  // Changes the welcome before it is sent.
  std::function<void(const warpline_internal::Hello&, warpline_internal::Welcome*)> edit_welcome;
  // Refuses the session with the status that it returns, unless that is OK.
  std::function<absl::Status(const warpline_internal::Hello&)> admit;
  // Answers a command instead of the default; returns false to get the default.
  std::function<bool(const Command&, std::string* replies)> on_command;
  // Answers a request to read back memory; returns false to give none.
  std::function<bool(const warpline_internal::ReadBack&, warpline_internal::ReadBackDone*)>
      on_read_back;
  bool resumable = false;                // Sessions outlive their connection.
  bool relays = false;                   // Offers relays.
  bool silent = false;                   // Never welcomes.
  std::atomic<bool> hold_memory{false};  // Never answers requests for memory.
  bool record_commands = true;           // Off for benchmarks.

  // While held, commands are neither acknowledged, nor retired; releasing catches up.
  void HoldReceived(bool hold);
  void HoldRetired(bool hold);

  // Any thread.
  void Send(uint32_t kind, std::string payload);
  void SendReplies(std::string replies) { Send(kRepliesKind, std::move(replies)); }
  void Close(const absl::Status& status);
  // Loses the connection as soon as the client has sent so many frames more.
  void CutAfter(int frames) { cut_after_.store(frames); }
  // This many resumptions are refused with UNAVAILABLE.
  std::atomic<int> refuse_resumes{0};
  // This many are answered with kRedirect and these bytes.
  std::atomic<int> redirect_resumes{0};
  std::string redirect;
  int resumes() const { return resumes_.load(); }

  std::vector<Command> commands() const;
  std::vector<warpline_internal::MemoryRequest> memory_requests() const;
  std::vector<warpline_internal::MemoryReturn> memory_returns() const;
  bool close_seen() const { return close_seen_.load(); }
  // Waits until command `seq` has arrived.
  void AwaitCommand(uint64_t seq) const;

  // A link calls these on its loop: the first with every frame of the client, the second when it
  // goes away.
  void OnFrame(ClientLink* link, const Frame& frame);
  void OnLinkGone(ClientLink* link);

  static constexpr uint64_t kQuota = 8ull << 30;

 private:
  static constexpr uint32_t kRepliesKind = 18;

  void OnHello(const Frame& frame);
  void OnResume(const Frame& frame);
  void OnCommands(const Frame& frame);
  void Execute(const Command& command, std::string* replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnMemoryRequest(const Frame& frame);
  void Deliver(Frame frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Acknowledge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RetireAll(std::string* replies) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  mutable CondVar arrived_;
  ClientLink* link_ ABSL_GUARDED_BY(mu_) = nullptr;
  // This link was cut; frames that it still brings are lost.
  const ClientLink* cut_link_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool hold_received_ ABSL_GUARDED_BY(mu_) = false;
  bool hold_retired_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t last_seq_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t controls_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_attempt_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Frame> counted_ ABSL_GUARDED_BY(mu_);  // All that were sent to the client.
  uint64_t granted_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, uint64_t> unretired_ ABSL_GUARDED_BY(mu_);  // Stream, its latest command.
  std::vector<uint64_t> fences_ ABSL_GUARDED_BY(mu_);
  std::vector<Command> commands_ ABSL_GUARDED_BY(mu_);
  std::vector<warpline_internal::MemoryRequest> requests_ ABSL_GUARDED_BY(mu_);
  std::vector<warpline_internal::MemoryReturn> returns_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> close_seen_{false};
  std::atomic<int> cut_after_{-1};
  std::atomic<int> resumes_{0};
};

// Returns the byte that the fake server's device memory holds at `address`.
inline char DeviceByte(uint64_t address) {
  return static_cast<char>(address * 31 + (address >> 8));
}

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_TESTING_FAKE_SERVER_H_
