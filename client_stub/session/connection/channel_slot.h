// The channel that a session has at the moment, for threads that wake it while it may be exchanged.
#ifndef WARPLINE_CLIENT_STUB_SESSION_CONNECTION_CHANNEL_SLOT_H_
#define WARPLINE_CLIENT_STUB_SESSION_CONNECTION_CHANNEL_SLOT_H_

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/channel.h"

namespace warpline::stub {

// Wake() and Close() are thread-safe and cheap: a thread notes in a counter, which few others
// share, that it is about to use the channel. WakeExclusively() is for the path of every command:
// it notes the same with a plain store, and Clear(), which is rare, has the kernel put a memory
// barrier into every thread instead. Set() and Clear() are called by one thread at a time.
class ChannelSlot {
 public:
  // `channel` is borrowed until Clear() has returned.
  void Set(Channel* channel) {
    transport_.store(channel->transport(), std::memory_order_relaxed);
    channel_.store(channel, std::memory_order_seq_cst);
  }

  // Of the channel that was set last; empty when none was.
  const char* transport() const { return transport_.load(std::memory_order_relaxed); }

  // Waits for the threads that use the channel, none of which blocks for long. Afterwards no thread
  // uses it.
  void Clear() {
    channel_.store(nullptr, std::memory_order_seq_cst);
    if (asymmetric_) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0);
    while (exclusive_.load(std::memory_order_acquire)) sched_yield();
    for (Users& users : users_) {
      while (users.count.load(std::memory_order_seq_cst) != 0) sched_yield();
    }
  }

  void Wake() {
    Use([](Channel* channel) { channel->Wake(); });
  }
  // Works like Wake(), for callers that all hold the same lock.
  void WakeExclusively() {
    if (!asymmetric_) return Wake();
    exclusive_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (Channel* channel = channel_.load(std::memory_order_acquire)) channel->Wake();
    exclusive_.store(false, std::memory_order_release);
  }
  // As Channel::Drive(); false without a channel, too. Clear() waits until the limit has passed.
  bool Drive(absl::FunctionRef<bool()> done, absl::Duration limit) {
    bool driven = false;
    Use([&](Channel* channel) { driven = channel->Drive(done, limit); });
    return driven;
  }
  void Close(const absl::Status& status) {
    Use([&status](Channel* channel) { channel->Close(status); });
  }

 private:
  struct alignas(64) Users {
    std::atomic<uint32_t> count{0};
  };

  template <typename Body>
  void Use(const Body& body) {
    std::atomic<uint32_t>& count = users_[Index()].count;
    count.fetch_add(1, std::memory_order_seq_cst);
    if (Channel* channel = channel_.load(std::memory_order_seq_cst)) body(channel);
    count.fetch_sub(1, std::memory_order_release);
  }

  // Tells threads apart by their stacks.
  static size_t Index() {
    return (reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) * 0x9e3779b97f4a7c15u) >> 60;
  }

  // ThreadSanitizer does not know of the kernel's barriers, and not every sandbox allows them.
  static bool MayUseBarriers() {
#if defined(__SANITIZE_THREAD__)
    return false;
#else
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) == 0;
#endif
  }

  const bool asymmetric_ = MayUseBarriers();
  alignas(64) std::atomic<Channel*> channel_{nullptr};
  std::atomic<bool> exclusive_{false};
  std::atomic<const char*> transport_{""};
  std::array<Users, 16> users_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_CONNECTION_CHANNEL_SLOT_H_
