#include "bench/network/emulated_link.h"

#include <poll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "bench/network/flow_memory.h"
#include "bench/network/packet.h"
#include "bench/network/packet_queue.h"
#include "common/mutex.h"

namespace warpline {
namespace {

using std::chrono::nanoseconds;

constexpr size_t kHeader = sizeof(OffloadHeader);
// More than any TCP connection of this system has under way.
constexpr size_t kUnderWay = 256u << 20;
// A sleeping thread wakes up late: it is woken so much earlier, and polls for the rest.
constexpr std::chrono::microseconds kWakesLate{40};
constexpr std::chrono::milliseconds kLooksForEnd{50};

LinkTime Now() { return std::chrono::steady_clock::now(); }

// One direction. Run() belongs to a thread; the rest of what is public is thread-safe.
class Direction {
 public:
  Direction(const LinkOptions& options, uint64_t seed, int from, int to, FlowMemory* flows)
      : poll_(options.poll), from_(from), to_(to), flows_(flows), line_(options.line, seed) {}

  void Run(const std::atomic<bool>& ends) {
    prctl(PR_SET_TIMERSLACK, 1);
    LinkTime active = Now();
    while (!ends) {
      const bool took = TakeOne();
      const bool delivered = DeliverDue();
      const LinkTime now = Now();
      if (took || delivered) {
        active = now;
      } else if (now - active >= poll_) {
        Sleep(now);
      }
    }
  }

  void Set(const LineSettings& settings) {
    MutexLock lock(&mu_);
    line_.Set(settings);
  }

  void AddCounts(LinkCounts* counts) const {
    counts->passed += passed_;
    counts->lost += lost_;
    counts->forgotten += forgotten_;
  }

 private:
  // Returns whether a packet was there.
  bool TakeOne() {
    char* const room = queue_.Room();
    if (room == nullptr) return false;
    const ssize_t got = read(from_, room, PacketQueue::kMostBytes);
    const LinkTime now = Now();
    if (got <= static_cast<ssize_t>(kHeader)) {
      empty_at_ = now;
      return false;
    }
    const absl::string_view packet(room, static_cast<size_t>(got));
    if (flows_ != nullptr) {
      const auto segment = ReadTcp(packet.substr(kHeader));
      if (segment.has_value() && !flows_->Passes(*segment, now)) {
        ++forgotten_;
        return true;
      }
    }
    const auto due = Take(now, packet);
    if (due.has_value()) {
      queue_.Push(packet.size(), *due);
    } else {
      ++lost_;
    }
    return true;
  }

  std::optional<LinkTime> Take(LinkTime now, absl::string_view packet) {
    OffloadHeader offload;
    std::memcpy(&offload, packet.data(), kHeader);
    const size_t bytes = WireBytes(offload, packet.substr(kHeader));
    MutexLock lock(&mu_);
    return line_.Take(now, empty_at_, bytes);
  }

  // Returns whether something was due.
  bool DeliverDue() {
    bool some = false;
    while (!queue_.empty() && queue_.due() <= Now()) {
      const absl::string_view packet = queue_.front();
      // An end that is down or has no memory takes nothing, as a network card would not.
      ++(write(to_, packet.data(), packet.size()) > 0 ? passed_ : lost_);
      queue_.Pop();
      some = true;
    }
    return some;
  }

  // Returns at once when the next packet is due soon.
  void Sleep(LinkTime now) {
    nanoseconds left = kLooksForEnd;
    if (!queue_.empty()) left = std::min<nanoseconds>(left, queue_.due() - now - kWakesLate);
    if (left <= nanoseconds(0)) return;
    const timespec timeout = {.tv_sec = 0, .tv_nsec = left.count()};
    pollfd polled = {.fd = from_, .events = POLLIN, .revents = 0};
    ppoll(&polled, 1, &timeout, nullptr);
    empty_at_ = Now();
  }

  const nanoseconds poll_;
  const int from_;
  const int to_;
  FlowMemory* const flows_;  // Null for a link that never forgets.
  PacketQueue queue_{kUnderWay};
  LinkTime empty_at_ = Now();  // When no packet was there, as far as is known.
  std::atomic<int64_t> passed_{0};
  std::atomic<int64_t> lost_{0};
  std::atomic<int64_t> forgotten_{0};
  Mutex mu_;
  PacketLine line_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

class EmulatedLink::Impl {
 public:
  Impl(const LinkOptions& options, UniqueFd one, UniqueFd other)
      : one_(std::move(one)),
        other_(std::move(other)),
        flows_(options.forget),
        there_(options, options.seed, one_.get(), other_.get(), Flows(options)),
        back_(options, options.seed + 1, other_.get(), one_.get(), Flows(options)),
        there_thread_([this] { there_.Run(ends_); }),
        back_thread_([this] { back_.Run(ends_); }) {}

  ~Impl() {
    ends_ = true;
    there_thread_.join();
    back_thread_.join();
  }

  void Set(const LineSettings& settings) {
    there_.Set(settings);
    back_.Set(settings);
  }

  FlowMemory& flows() { return flows_; }

  LinkCounts counts() const {
    LinkCounts counts;
    there_.AddCounts(&counts);
    back_.AddCounts(&counts);
    return counts;
  }

 private:
  FlowMemory* Flows(const LinkOptions& options) {
    return options.forget > nanoseconds(0) ? &flows_ : nullptr;
  }

  const UniqueFd one_;
  const UniqueFd other_;
  FlowMemory flows_;
  std::atomic<bool> ends_{false};
  Direction there_;
  Direction back_;
  std::thread there_thread_;
  std::thread back_thread_;
};

EmulatedLink::EmulatedLink(const LinkOptions& options, UniqueFd one, UniqueFd other)
    : impl_(std::make_unique<Impl>(options, std::move(one), std::move(other))) {}

EmulatedLink::~EmulatedLink() = default;

void EmulatedLink::Set(const LineSettings& settings) { impl_->Set(settings); }

void EmulatedLink::Forget() { impl_->flows().Forget(); }

void EmulatedLink::SetForget(std::chrono::nanoseconds forget) { impl_->flows().SetIdle(forget); }

LinkCounts EmulatedLink::counts() const { return impl_->counts(); }

}  // namespace warpline
