#include "client_stub/core/stream/host_calls.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <thread>

#include "client_stub/core/base/call_log.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"
#include "transport/loop_thread.h"

namespace warpline::stub {
namespace {

// Less than the worker queues for a session (SessionLimits), and less than the window of commands.
constexpr uint64_t kMaxPacedBytes = 128ull << 20;
constexpr uint64_t kMaxPacedCommands = 32u << 10;

}  // namespace

HostCalls::HostCalls(Session* session)
    : commands_(&session->commands()), status_(&session->status()) {
  session->notices().SetHostDueCallback([this](uint64_t token) { OnDue(token); });
}

bool HostCalls::OnThread() { return t_thread.runs_host_calls; }

bool HostCalls::StartLocked() {
  if (started_) return true;
  try {
    StartLoopThread("wl-hostcalls", [this] { Run(); }).detach();
  } catch (const std::system_error& error) {
    if (const LogPermit permit = CallLog().Ask(kNoThreadLine)) {
      permit.Error("no thread for host functions: ", error.what());
    }
    return false;
  }
  started_ = true;
  return true;
}

uint64_t HostCalls::Add(const Call& call) {
  MutexLock lock(&mu_);
  if (!StartLocked()) return 0;
  const uint64_t token = next_token_++;
  calls_.emplace(token, call);
  count_.store(calls_.size(), std::memory_order_relaxed);
  return token;
}

void HostCalls::RunSoon(CUhostFn function, void* data) {
  const uint64_t token = Add({.function = function, .data = data, .in_stream = false});
  if (token != 0) OnDue(token);
}

void HostCalls::Cancel(uint64_t wire) {
  MutexLock lock(&mu_);
  for (auto& [token, call] : calls_) {
    if (call.in_stream && call.wire == wire) call.cancelled = true;
  }
}

void HostCalls::Forget(uint64_t token) {
  MutexLock lock(&mu_);
  FinishLocked(token);
}

void HostCalls::FinishLocked(uint64_t token) {
  calls_.erase(token);
  count_.store(calls_.size(), std::memory_order_relaxed);
  if (calls_.empty()) {
    paced_bytes_ = 0;
    paced_commands_ = 0;
  }
  changed_.NotifyAll();
}

void HostCalls::Pace(uint64_t bytes) {
  MutexLock lock(&mu_);
  if (calls_.empty()) return;
  paced_bytes_ += bytes;
  ++paced_commands_;
  while (!calls_.empty() && !lost_ &&
         (paced_bytes_ > kMaxPacedBytes || paced_commands_ > kMaxPacedCommands)) {
    changed_.Wait(&mu_);
  }
}

void HostCalls::Await() {
  MutexLock lock(&mu_);
  const uint64_t end = next_token_;
  while (!calls_.empty() && calls_.begin()->first < end && !lost_) changed_.Wait(&mu_);
}

void HostCalls::OnDue(uint64_t token) {
  MutexLock lock(&mu_);
  if (token == Notices::kNoToken) {
    lost_ = true;
  } else {
    due_.push_back(token);
  }
  changed_.NotifyAll();
}

void HostCalls::Run() {
  t_thread.runs_host_calls = true;
  // The application's functions may touch mirrored memory, which is a fault to be handled.
  UnblockSignals({SIGSEGV});
  while (true) {
    Call call;
    uint64_t token = 0;
    bool due = false;
    {
      MutexLock lock(&mu_);
      while (due_.empty() && !(lost_ && !calls_.empty())) changed_.Wait(&mu_);
      due = !due_.empty();
      if (due) {
        token = due_.front();
        due_.pop_front();
      } else {
        // The turn of these calls will not come. Callbacks are told why, in their order.
        token = calls_.begin()->first;
      }
      const auto it = calls_.find(token);
      if (it == calls_.end()) continue;
      call = it->second;
    }
    CudaResult error = status_->error();
    if (error == CudaResult::kSuccess && call.cancelled) error = kCancelled;
    // At the process's end no code of the application runs any more.
    if (error != CudaResult::kDeinitialized) {
      if (call.callback != nullptr) {
        call.callback(call.stream, ToCu(error), call.data);
      } else if ((error == CudaResult::kSuccess && due) || !call.in_stream) {
        call.function(call.data);
      }
    }
    if (due) runtime().mirrored->AfterHostCall();
    {
      MutexLock lock(&mu_);
      FinishLocked(token);
    }
    if (due && call.in_stream) commands_->Send(cmd::HostDone{token});
  }
}

}  // namespace warpline::stub
