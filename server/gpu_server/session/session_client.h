// A session's way to its client, beside what its worker writes: answers to requests for memory.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_CLIENT_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_CLIENT_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "proto/session.pb.h"
#include "server/gpu_server/memory/memory_links.h"
#include "server/gpu_server/session/connection/session_port.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

class SessionClient : public ClientLink {
 public:
  // At most `max_pending` requests are under way; further ones wait. `violated` is told of a client
  // that asks for what nobody may ask for.
  SessionClient(std::shared_ptr<SessionPort> port, int max_pending,
                std::function<void(const absl::Status&)> violated)
      : port_(std::move(port)), max_pending_(max_pending), violated_(std::move(violated)) {}

  // Counts a request until Done(). False when too many are under way; then the port is woken once
  // there is room. Thread-safe.
  bool TryCount();
  // The same for one of the session's own, which there is always room for.
  void Count() RUNS_ON(control_loop) { pending_.fetch_add(1); }

  // The next grant goes to `first`, and not to the client.
  void HoldNextGrant(std::function<void(warpline_internal::MemoryGrant)> first)
      RUNS_ON(control_loop) {
    first_grant_ = std::move(first);
  }
  // For reports: no line in the log, since allocators try again as a matter of course.
  void NoteRefusedMemory(const std::string& why) RUNS_ON(control_loop);
  // The client understands kRefused.
  void TellRefusals() RUNS_ON(control_loop) { tells_refusals_ = true; }
  // Why memory was refused, the latest time.
  const std::string& memory_refusal() const RUNS_ON(control_loop) { return memory_refusal_; }
  // The answer to a ReadBack, which comes after a fault.
  void AnswerRead(warpline_internal::ReadBackDone done, std::string data) RUNS_ON(control_loop);

  // ClientLink.
  void Push(warpline_internal::MemoryGrant grant) override RUNS_ON(control_loop);
  void Done() override RUNS_ON(control_loop);
  void SayRefused(const std::string& why) override RUNS_ON(control_loop);
  void Violated(const absl::Status& status) override RUNS_ON(control_loop) { violated_(status); }

 private:
  bool CountIfRoom();

  const std::shared_ptr<SessionPort> port_;
  const int max_pending_;
  const std::function<void(const absl::Status&)> violated_;
  std::atomic<int> pending_{0};  // Raised by the channel's loop.
  std::atomic<bool> one_waits_{false};
  std::function<void(warpline_internal::MemoryGrant)> first_grant_ ABSL_GUARDED_BY(control_loop);
  bool tells_refusals_ ABSL_GUARDED_BY(control_loop) = false;
  std::string memory_refusal_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_CLIENT_H_
