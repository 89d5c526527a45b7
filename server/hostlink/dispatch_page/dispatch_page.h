// The page of memory through which the server's dispatcher and one session's worker agree on whose
// turn it is. It has a slot for each device of the session and each engine (compute, copies in,
// copies out). The worker writes the session's demand there, and the server writes whether the
// session may begin. The worker also writes which of its streams with a priority want a device.
//
// The server makes a page for each session, so that no worker sees another's. The server treats the
// worker's part as hostile (SlotReader), and never reads its own part back. An isolated worker that
// a tenant has taken over can ignore the grants or overwrite them. It gains by that only what it
// could have without asking. A page of zeros grants everything.
#ifndef WARPLINE_SERVER_HOSTLINK_DISPATCH_PAGE_DISPATCH_PAGE_H_
#define WARPLINE_SERVER_HOSTLINK_DISPATCH_PAGE_DISPATCH_PAGE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
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

// The permission of a session to begin work on an engine, in one word.
class Grant {
 public:
  enum class State : uint64_t {
    kOpen = 0,    // No other slice has the device.
    kClosed = 1,  // It is another slice's turn.
    kTurn = 2,    // It is the session's turn, and others wait.
    kShared = 3,  // Others have the device, and none waits for the engine.
  };

  static constexpr Grant Open() { return Grant(0); }
  // `likely_ns` is when the session's turn may begin; 0 if that is not known.
  static constexpr Grant Closed(int64_t likely_ns) { return Make(State::kClosed, likely_ns); }
  // Work that would begin after `until_ns` must not be issued.
  static constexpr Grant Turn(int64_t until_ns) { return Make(State::kTurn, until_ns); }
  static constexpr Grant Shared() { return Make(State::kShared, 0); }
  static constexpr Grant FromWord(uint64_t word) { return Grant(word); }
  // Returns this grant with a limit: only a little may be in flight, because a more urgent session
  // is expected. REQUIRES: the state is kTurn or kShared.
  constexpr Grant Brief() const { return Grant(word_ | kBrief); }

  constexpr uint64_t word() const { return word_; }
  constexpr bool open() const { return word_ == 0; }
  constexpr State state() const { return static_cast<State>(word_ & 3); }
  // The time in the grant, by MonotonicNs().
  constexpr int64_t time_ns() const { return static_cast<int64_t>((word_ & ~kBrief) >> 2); }
  constexpr bool brief() const { return (word_ & kBrief) != 0; }
  constexpr bool operator==(const Grant&) const = default;

 private:
  // The bit above all times, which take 61 bits: 73 years of a host.
  static constexpr uint64_t kBrief = uint64_t{1} << 63;

  explicit constexpr Grant(uint64_t word) : word_(word) {}
  static constexpr Grant Make(State state, int64_t time_ns) {
    return Grant(static_cast<uint64_t>(time_ns < 0 ? 0 : time_ns) << 2 |
                 static_cast<uint64_t>(state));
  }

  uint64_t word_;
};

// Written by the worker's executors. The numbers of executors are momentary; the other counters
// only grow.
struct alignas(64) WorkerLine {
  std::atomic<uint32_t> executors_waiting{0};  // Executors with a command that they may not issue.
  std::atomic<uint32_t> executors_in_flight{0};  // Executors with issued work that is not complete.
  std::atomic<uint64_t> busy_ns{0};              // Time for which executors_in_flight was not zero.
  std::atomic<uint64_t> commands{0};             // Commands that are complete.
  std::atomic<uint64_t> bytes{0};                // Bytes of copies that were issued.
  std::atomic<int64_t> busy_since_ns{0};         // Valid while executors_in_flight is not zero.
  // The part of the device's multiprocessors on which the last issued work runs, in thousandths,
  // where sessions of one context divide them; 0 where they do not.
  std::atomic<uint32_t> share{0};
  // Loads of code onto the device, in the compute engine's line. Where others share the hardware
  // context, a load waits until none of their kernels runs.
  std::atomic<uint64_t> loads_begun{0};
  std::atomic<uint64_t> loads_ended{0};
};

// Written by the server.
struct alignas(64) ServerLine {
  std::atomic<uint64_t> grant{0};  // A Grant.
  // The number of sessions that shared this session's ledger of the engine when the server looked
  // last; 0 before it did. The server does not look while no other slice has the device.
  std::atomic<uint32_t> sharers{0};
};

// Each line has one writer, so that neither slows down the other.
struct EngineSlot {
  WorkerLine worker;
  ServerLine server;

  Grant grant() const { return Grant::FromWord(server.grant.load(std::memory_order_acquire)); }
  void SetGrant(Grant grant) { server.grant.store(grant.word(), std::memory_order_release); }
};

using DeviceSlots = std::array<EngineSlot, kEngines>;
static_assert(sizeof(WorkerLine) == 64);

// The ranks of streams, from 0 to this. CUDA's stream priority -n has the rank n.
inline constexpr uint32_t kMostRank = 7;
// Returns the rank of a stream priority, which may be any number.
constexpr uint32_t RankOf(int32_t priority) {
  if (priority >= 0) return 0;
  return priority <= -static_cast<int32_t>(kMostRank) ? kMostRank
                                                      : static_cast<uint32_t>(-priority);
}

// The executors of one device whose streams have a rank above 0 and that want the compute engine.
// Written by the worker's executors. Streams without a priority write nothing here.
struct alignas(64) RankLine {
  // Executors of the rank n + 1 that wait for the engine or have work in flight, and those of them
  // that have nothing in flight and are about to begin.
  struct Rank {
    std::atomic<uint32_t> at_work{0};
    std::atomic<uint32_t> beginning{0};
  };

  std::atomic<uint32_t> raised{0};  // The sum of all `at_work`.
  std::array<Rank, kMostRank> ranks;

  // Returns the highest rank that is at work; 0 for none.
  uint32_t Highest() const {
    if (raised.load(std::memory_order_relaxed) == 0) return 0;
    for (uint32_t rank = kMostRank; rank > 0; --rank) {
      if (ranks[rank - 1].at_work.load(std::memory_order_relaxed) != 0) return rank;
    }
    return 0;
  }
  // Returns whether an executor of a higher rank than this is about to begin.
  bool BeginsAbove(uint32_t rank) const {
    for (uint32_t above = rank; above < kMostRank; ++above) {
      if (ranks[above].beginning.load(std::memory_order_relaxed) != 0) return true;
    }
    return false;
  }
};
static_assert(sizeof(RankLine) == 64);

// A kernel's launch. Zeros for one that is not known.
struct KernelFacts {
  uint64_t name = 0;  // KernelNameHash() of the kernel's name.
  uint64_t grid_blocks = 0;
  int64_t expected_ns = 0;  // How long it takes, as its session has learned.
  uint32_t block_threads = 0;
  uint32_t registers = 0;     // For each thread.
  uint32_t shared_bytes = 0;  // For each block, with its dynamic shared memory.

  bool operator==(const KernelFacts&) const = default;
};
// Returns the FNV-1a hash of a kernel's name, as its module has it; never 0.
uint64_t KernelNameHash(std::string_view name);

// The launch for which an executor waited that began to wait last. Written by the worker's
// executors. It means something while the compute engine's line has executors that wait.
class alignas(64) KernelLine {
 public:
  // Does nothing while another thread writes.
  void Write(const KernelFacts& kernel);
  // Returns zeros while a thread writes.
  KernelFacts Read() const;
  void Reset();

 private:
  std::atomic<uint32_t> version_{0};  // Odd while a thread writes.
  std::atomic<uint32_t> block_threads_{0};
  std::atomic<uint32_t> registers_{0};
  std::atomic<uint32_t> shared_bytes_{0};
  std::atomic<uint64_t> name_{0};
  std::atomic<uint64_t> grid_blocks_{0};
  std::atomic<int64_t> expected_ns_{0};
};
static_assert(sizeof(KernelLine) == 64);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// A mapping of a session's page. Any thread may use the mapping, but each process writes only its
// own parts.
class DispatchPage {
 public:
  // Makes a page; fd() is for the worker. Fails with RESOURCE_EXHAUSTED when the system has no
  // descriptors or memory left.
  static absl::StatusOr<std::unique_ptr<DispatchPage>> Create();
  // Maps a page that another process has made. Fails with INVALID_ARGUMENT for other memory.
  static absl::StatusOr<std::unique_ptr<DispatchPage>> Attach(UniqueFd fd);
  ~DispatchPage();
  DispatchPage(const DispatchPage&) = delete;
  DispatchPage& operator=(const DispatchPage&) = delete;

  int fd() const { return fd_.get(); }
  // Returns the slots of the session's device number `device`, below kMaxSessionDevices.
  DeviceSlots& device(size_t device) { return memory_->devices[device]; }
  RankLine& ranks(size_t device) { return memory_->ranks[device]; }
  KernelLine& kernel(size_t device) { return memory_->kernels[device]; }
  // Resets the numbers of a worker that has ended.
  void ForgetWorker();

 private:
  struct Memory {
    std::array<DeviceSlots, kMaxSessionDevices> devices;
    std::array<RankLine, kMaxSessionDevices> ranks;
    std::array<KernelLine, kMaxSessionDevices> kernels;
  };

  DispatchPage(UniqueFd fd, Memory* memory) : fd_(std::move(fd)), memory_(memory) {}
  static absl::StatusOr<std::unique_ptr<DispatchPage>> Map(UniqueFd fd);

  const UniqueFd fd_;
  Memory* const memory_;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_HOSTLINK_DISPATCH_PAGE_DISPATCH_PAGE_H_
