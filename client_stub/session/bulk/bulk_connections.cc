#include "client_stub/session/bulk/bulk_connections.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "client_stub/session/status/session_log.h"
#include "transport/loop_thread.h"

namespace warpline::stub {
namespace {

constexpr absl::Duration kDialDeadline = absl::Seconds(5);
// Between attempts, while copies ask for connections.
constexpr absl::Duration kPause = absl::Seconds(1);

}  // namespace

void BulkConnections::Start(NewLink new_link) {
  for (uint32_t slot = 0; slot < kSlots; ++slot) links_[slot] = new_link(slot, Address(slot));
  started_.store(true, std::memory_order_release);
}

void BulkConnections::Offer(bool offered) {
  failed_.store(false);
  offered_.store(offered, std::memory_order_release);
  if (!offered) connecting_.store(false, std::memory_order_release);
}

uint32_t BulkConnections::Ready(uint32_t wanted) {
  if (!started_.load(std::memory_order_acquire) || !offered_.load(std::memory_order_acquire)) {
    return 0;
  }
  wanted = std::min(wanted, most_.load(std::memory_order_relaxed));
  uint32_t ready = 0;
  while (ready < wanted && links_[ready]->up()) ++ready;
  if (ready == wanted) return ready;
  MutexLock lock(&mu_);
  if (closed_) return 0;
  wanted_ = std::max(wanted_, wanted);
  if (!due_) {
    due_ = true;
    // One that cannot be reached is not waited for again.
    connecting_.store(!failed_.load(), std::memory_order_release);
    if (!thread_.joinable()) thread_ = StartLoopThread("wl-bulk", [this] { Run(); });
    changed_.NotifyAll();
  }
  return ready;
}

void BulkConnections::Run() {
  while (true) {
    uint32_t wanted;
    {
      MutexLock lock(&mu_);
      while (!due_ && !closed_) changed_.Wait(&mu_);
      if (closed_) return;
      wanted = wanted_;
    }
    const bool connected = ConnectAll(wanted);
    failed_.store(!connected);
    connecting_.store(false, std::memory_order_release);
    MutexLock lock(&mu_);
    const absl::Time next = absl::Now() + kPause;
    while (!connected && !closed_ && absl::Now() < next) {
      changed_.WaitWithTimeout(&mu_, next - absl::Now());
    }
    due_ = false;
  }
}

bool BulkConnections::ConnectAll(uint32_t wanted) {
  for (uint32_t slot = 0; slot < std::min(wanted, most_.load()); ++slot) {
    if (links_[slot]->up()) continue;
    const absl::Status status = links_[slot]->Connect(kDialDeadline);
    if (status.ok()) continue;
    if (const LogPermit permit = log_->Ask(kNoBulkConnectionLine)) {
      permit.Info("bulk connection ", slot,
                  " cannot be used, and large copies go with the commands: ",
                  status.ToString(absl::StatusToStringMode::kWithNoExtraData));
    }
    if (!absl::IsResourceExhausted(status)) return false;
    most_.store(slot);
  }
  return true;
}

void BulkConnections::Close() {
  if (!started_.load()) return;
  for (const auto& link : links_) link->Stop();
  std::thread thread;
  {
    MutexLock lock(&mu_);
    closed_ = true;
    changed_.NotifyAll();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
  for (const auto& link : links_) link->Disconnect();
}

}  // namespace warpline::stub
