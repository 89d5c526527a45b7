// The page of memory through which the server's dispatcher and one session's worker agree on whose
// turn it is: per device of the session and per engine (compute, copies in, copies out), what the
// session wants, which the worker writes, and whether it may begin, which the server writes.
//
// The server makes a page for each session, so that no worker sees another's. What the worker wrote
// is hostile to the server (SlotReader), which never reads what it wrote itself: an isolated worker
// that a tenant has taken over can ignore the grants or write them itself, and gains by that what
// it could have without asking. A page of zeros grants everything.
#ifndef WARPLINE_SERVER_HOSTLINK_DISPATCH_PAGE_DISPATCH_PAGE_H_
#define WARPLINE_SERVER_HOSTLINK_DISPATCH_PAGE_DISPATCH_PAGE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "proto/command_lists.h"
#include "proto/devices.h"

namespace warpline::dispatch {

// The engines that are given in turns: all values of Engine but kNothing, in that order.
inline constexpr size_t kEngines = 3;
constexpr size_t EngineIndex(Engine engine) { return static_cast<size_t>(engine) - 1; }

// CLOCK_MONOTONIC, which is the same in all processes of a host.
int64_t MonotonicNs();

// Whether a session may begin work on an engine, in one word.
class Grant {
 public:
  enum class State : uint64_t {
    kOpen = 0,    // Nobody else has the device.
    kClosed = 1,  // It is another's turn.
    kTurn = 2,    // It is the session's turn, and others wait.
    kShared = 3,  // Others have the device, and nobody waits for the engine.
  };

  static constexpr Grant Open() { return Grant(0); }
  // `likely_ns` is when the session's turn may begin; 0 if that is not known.
  static constexpr Grant Closed(int64_t likely_ns) { return Make(State::kClosed, likely_ns); }
  // What would begin after `until_ns` must not be issued.
  static constexpr Grant Turn(int64_t until_ns) { return Make(State::kTurn, until_ns); }
  static constexpr Grant Shared() { return Make(State::kShared, 0); }
  static constexpr Grant FromWord(uint64_t word) { return Grant(word); }
  // The same, and little may be in flight, for somebody more urgent is expected. Of a turn, or
  // shared.
  constexpr Grant Brief() const { return Grant(word_ | kBrief); }

  constexpr uint64_t word() const { return word_; }
  constexpr bool open() const { return word_ == 0; }
  constexpr State state() const { return static_cast<State>(word_ & 3); }
  // By MonotonicNs().
  constexpr int64_t time_ns() const { return static_cast<int64_t>((word_ & ~kBrief) >> 2); }
  constexpr bool brief() const { return (word_ & kBrief) != 0; }
  constexpr bool operator==(const Grant&) const = default;

 private:
  // Above all times: these take 61 bits, which are 73 years of a host.
  static constexpr uint64_t kBrief = uint64_t{1} << 63;

  explicit constexpr Grant(uint64_t word) : word_(word) {}
  static constexpr Grant Make(State state, int64_t time_ns) {
    return Grant(static_cast<uint64_t>(time_ns < 0 ? 0 : time_ns) << 2 |
                 static_cast<uint64_t>(state));
  }

  uint64_t word_;
};

// Written by the worker's lanes. The numbers of lanes are of those at work at the moment, the
// others only grow.
struct alignas(64) WorkerLine {
  std::atomic<uint32_t> lanes_waiting{0};    // That have a command and may not issue it.
  std::atomic<uint32_t> lanes_in_flight{0};  // That have issued what is not complete.
  std::atomic<uint64_t> busy_ns{0};          // How long lanes_in_flight was not zero.
  std::atomic<uint64_t> commands{0};         // That are complete.
  std::atomic<uint64_t> bytes{0};            // Of copies that were issued.
  std::atomic<int64_t> busy_since_ns{0};     // While lanes_in_flight is not zero.
  // The part of the device's multiprocessors that what was issued last runs on, in thousandths,
  // where sessions of one context divide them; 0 where they do not.
  std::atomic<uint32_t> share{0};
  // Of code onto the device, in the compute engine's line. Where others share the hardware context,
  // a load waits until none of their kernels runs.
  std::atomic<uint64_t> loads_begun{0};
  std::atomic<uint64_t> loads_ended{0};
};

// Written by the server.
struct alignas(64) ServerLine {
  std::atomic<uint64_t> grant{0};  // A Grant.
  // How many sessions had this one's account of the engine, which they divide, when the server
  // looked last; 0 before it did. It does not look while nobody else has the device.
  std::atomic<uint32_t> sharers{0};
};

// Each line is of one writer, so that neither slows down the other.
struct EngineSlot {
  WorkerLine worker;
  ServerLine server;

  Grant grant() const { return Grant::FromWord(server.grant.load(std::memory_order_acquire)); }
  void SetGrant(Grant grant) { server.grant.store(grant.word(), std::memory_order_release); }
};

using DeviceSlots = std::array<EngineSlot, kEngines>;
static_assert(sizeof(WorkerLine) == 64);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// A mapping of a session's page. Whoever has it reads and writes the parts that are its own, from
// any thread.
class DispatchPage {
 public:
  // Makes a page, of which fd() is for the worker. RESOURCE_EXHAUSTED when the system has no
  // descriptors or memory left.
  static absl::StatusOr<std::unique_ptr<DispatchPage>> Create();
  // Maps one that another process has made. INVALID_ARGUMENT for memory that is none.
  static absl::StatusOr<std::unique_ptr<DispatchPage>> Attach(UniqueFd fd);
  ~DispatchPage();
  DispatchPage(const DispatchPage&) = delete;
  DispatchPage& operator=(const DispatchPage&) = delete;

  int fd() const { return fd_.get(); }
  // Of the session's device number `device`, below kMaxSessionDevices.
  DeviceSlots& device(size_t device) { return (*devices_)[device]; }
  // Forgets what a worker that has ended was doing.
  void ForgetWorker();

 private:
  using Devices = std::array<DeviceSlots, kMaxSessionDevices>;

  DispatchPage(UniqueFd fd, Devices* devices) : fd_(std::move(fd)), devices_(devices) {}
  static absl::StatusOr<std::unique_ptr<DispatchPage>> Map(UniqueFd fd);

  const UniqueFd fd_;
  Devices* const devices_;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_HOSTLINK_DISPATCH_PAGE_DISPATCH_PAGE_H_
