// Reads a worker's report in its slot, and treats it as an enemy's.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_SLOT_READER_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_SLOT_READER_H_

#include <algorithm>
#include <cstdint>

#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::dispatch {

struct SlotReading {
  uint32_t waiting = 0;  // Executors that wait.
  bool in_flight = false;
  bool loading = false;  // Code is being loaded.
  // Increases since the last reading.
  int64_t busy_ns = 0;
  uint64_t commands = 0;
  uint64_t bytes = 0;
  uint32_t share = 0;  // WorkerLine::share, at most 1000.
  uint64_t loads = 0;  // Loads of code that have ended.
};

// Reads one slot. Numbers that go backwards count as no increase, and busy time is at most the time
// that has passed. Thread-compatible.
class SlotReader {
 public:
  SlotReading Read(const WorkerLine& line, int64_t now_ns) {
    SlotReading reading;
    reading.waiting =
        std::min(line.executors_waiting.load(std::memory_order_relaxed), kMostExecutors);
    reading.in_flight = line.executors_in_flight.load(std::memory_order_relaxed) != 0;
    const int64_t passed_ns = read_ns_ == 0 ? 0 : std::max<int64_t>(now_ns - read_ns_, 0);
    reading.busy_ns = BusyNs(line, reading.in_flight, now_ns, passed_ns);
    reading.commands = std::min(commands_.Since(line.commands), kMostEach);
    reading.bytes = std::min(bytes_.Since(line.bytes), kMostEach);
    reading.share = std::min(line.share.load(std::memory_order_relaxed), kWhole);
    reading.loads = std::min(loads_.Since(line.loads_ended), kMostEach);
    reading.loading = line.loads_begun.load(std::memory_order_relaxed) !=
                      line.loads_ended.load(std::memory_order_relaxed);
    read_ns_ = now_ns;
    return reading;
  }

 private:
  static constexpr uint32_t kMostExecutors = 1u << 16;
  static constexpr uint32_t kWhole = 1000;
  static constexpr uint64_t kMostEach = 1ull << 40;

  // A number that should only grow.
  class Growing {
   public:
    uint64_t Since(const std::atomic<uint64_t>& value) {
      const uint64_t now = value.load(std::memory_order_relaxed);
      const uint64_t since = now > last_ ? now - last_ : 0;
      last_ = now;
      return since;
    }

   private:
    uint64_t last_ = 0;
  };

  // Returns the new busy time. Work under way counts here before the worker adds it to the line's
  // `busy_ns`.
  int64_t BusyNs(const WorkerLine& line, bool in_flight, int64_t now_ns, int64_t passed_ns) {
    const auto done =
        static_cast<int64_t>(std::min<uint64_t>(busy_.Since(line.busy_ns), uint64_t{1} << 62));
    int64_t fresh_ns = std::max<int64_t>(done - ahead_ns_, 0);
    ahead_ns_ = std::max<int64_t>(ahead_ns_ - done, 0);
    if (in_flight) {
      const int64_t since_ns = line.busy_since_ns.load(std::memory_order_relaxed);
      const int64_t open_ns = since_ns > 0 && since_ns <= now_ns ? now_ns - since_ns : passed_ns;
      const int64_t more_ns = std::max<int64_t>(open_ns - ahead_ns_, 0);
      fresh_ns = std::min(fresh_ns, passed_ns) + std::min(more_ns, passed_ns);
      ahead_ns_ = std::min(open_ns, ahead_ns_ + more_ns);
    } else {
      ahead_ns_ = 0;
    }
    return std::min(fresh_ns, passed_ns);
  }

  int64_t read_ns_ = 0;
  int64_t ahead_ns_ = 0;  // Busy time of work under way that has been counted.
  Growing busy_;
  Growing commands_;
  Growing bytes_;
  Growing loads_;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_SLOT_READER_H_
