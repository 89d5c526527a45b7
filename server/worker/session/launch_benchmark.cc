// Measures a launch's cost to the threads of a worker, besides the driver: bazel run -c opt
// //server/worker/session:launch_benchmark
//
// Rows of launches go through a session whose device does nothing, in frames of so many. Prints,
// for each launch, the processor time of the decoder's thread and of the executor's, and how often
// the device was asked to record or to query an event.
#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "common/loop/loop_affinity.h"
#include "proto/commands.h"
#include "proto/frames.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/session/hosted_session.h"
#include "server/worker/testing/fake_context.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kRow = 20'000;
constexpr int kRows = 20;

uint64_t ThreadNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Launches take so long, as a driver's do; events are complete at once.
class Device : public FakeContext {
 public:
  explicit Device(int64_t launch_ns) : launch_ns_(launch_ns) {}

  // All of them come from one executor's thread.
  CudaResult Launch(device::KernelId, const device::LaunchConfig&, absl::Span<const std::byte>,
                    device::StreamId) override {
    const uint64_t launches = launches_.load(std::memory_order_relaxed) + 1;
    if (launches % kRow == 1) first_ns_ = ThreadNs();
    if (launches % kRow == 0) executor_ns_ += ThreadNs() - first_ns_;
    if (launch_ns_ > 0) {
      timespec begin, now;
      clock_gettime(CLOCK_MONOTONIC, &begin);
      do {
        clock_gettime(CLOCK_MONOTONIC, &now);
      } while ((now.tv_sec - begin.tv_sec) * 1'000'000'000 + now.tv_nsec - begin.tv_nsec <
               launch_ns_);
    }
    launches_.store(launches, std::memory_order_release);
    return CudaResult::kSuccess;
  }
  CudaResult RecordEvent(device::EventId event, device::StreamId stream) override {
    ++records_;
    return FakeContext::RecordEvent(event, stream);
  }
  CudaResult QueryEvent(device::EventId event) override {
    ++queries_;
    return FakeContext::QueryEvent(event);
  }

  uint64_t launches() const { return launches_.load(std::memory_order_acquire); }
  // Between the first and the last launch of each row.
  uint64_t executor_ns() const { return executor_ns_; }
  uint64_t records() const { return records_; }
  uint64_t queries() const { return queries_; }

 private:
  const int64_t launch_ns_;
  std::atomic<uint64_t> launches_{0};
  uint64_t first_ns_ = 0;
  uint64_t executor_ns_ = 0;
  std::atomic<uint64_t> records_{0};
  std::atomic<uint64_t> queries_{0};
};

class Writer : public FrameWriter {
 public:
  void Write(std::string_view, std::string_view) override {}
};

class Row {
 public:
  explicit Row(int64_t launch_ns) : device_(launch_ns) {
    HostedSession::Options options;
    options.devices = {{&device_}};
    options.writer = &writer_;
    session_ = *HostedSession::Create(std::move(options));
    Add(cmd::ImageData{1, 5, 0}, "image");
    Add(cmd::ModuleLoad{2, 1}, "");
    Add(cmd::KernelFind{3, 2}, "kernel");
    Add(cmd::StreamCreate{kStream, 1, 0}, "");
    Send();
  }

  Device& device() { return device_; }

  // Returns the processor time of this thread.
  uint64_t Run(uint64_t per_frame) {
    const uint64_t done = device_.launches() + kRow;
    const std::string params(12, 'p');
    cmd::Launch launch;
    launch.stream = kStream;
    launch.kernel = 3;
    launch.grid_x = launch.grid_y = launch.grid_z = 1;
    launch.block_x = launch.block_y = launch.block_z = 1;
    uint64_t ns = 0;
    for (uint64_t sent = 0; sent < kRow;) {
      for (uint64_t i = 0; i < per_frame && sent < kRow; ++i, ++sent) Add(launch, params);
      const uint64_t begin = ThreadNs();
      Send();
      ns += ThreadNs() - begin;
    }
    while (device_.launches() < done) sched_yield();
    return ns;
  }

 private:
  static constexpr uint64_t kStream = 7;

  template <typename Command>
  void Add(const Command& command, std::string_view tail) {
    std::memcpy(AppendCommand(command, tail.size(), &commands_), tail.data(), tail.size());
    ++count_;
    ++next_seq_;
  }
  void Send() {
    const CommandsHeader header = {next_seq_ - count_, count_, 0};
    std::string payload(reinterpret_cast<const char*>(&header), sizeof(header));
    payload += commands_;
    commands_.clear();
    count_ = 0;
    decoder_thread.AssertOnLoop();
    if (!session_->Decode(std::move(payload)).ok()) std::abort();
  }

  Device device_;
  Writer writer_;
  std::unique_ptr<HostedSession> session_;
  std::string commands_;
  uint32_t count_ = 0;
  uint64_t next_seq_ = 1;
};

void Main() {
  const LoopScope scope(&decoder_thread);
  std::printf("%-12s %-10s %12s %12s %10s %10s\n", "launch ns", "per frame", "decoder ns",
              "executor ns", "records", "queries");
  for (const int64_t launch_ns : {0, 3000}) {
    for (const uint64_t per_frame : {1, 4, 32, 256}) {
      Row row(launch_ns);
      row.Run(per_frame);
      const uint64_t executor_before = row.device().executor_ns();
      const uint64_t records = row.device().records(), queries = row.device().queries();
      uint64_t decoder_ns = 0;
      for (int i = 0; i < kRows; ++i) decoder_ns += row.Run(per_frame);
      constexpr double kAll = static_cast<double>(kRow) * kRows;
      std::printf("%-12lld %-10llu %12.1f %12.1f %10.4f %10.4f\n",
                  static_cast<long long>(launch_ns), static_cast<unsigned long long>(per_frame),
                  static_cast<double>(decoder_ns) / kAll,
                  static_cast<double>(row.device().executor_ns() - executor_before) / kAll -
                      static_cast<double>(launch_ns),
                  static_cast<double>(row.device().records() - records) / kAll,
                  static_cast<double>(row.device().queries() - queries) / kAll);
    }
  }
}

}  // namespace
}  // namespace warpline::worker

int main() { warpline::worker::Main(); }
