// Round trips and throughput of a pair of rings between two threads, spinning and sleeping.
#include <benchmark/benchmark.h>
#include <sched.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "transport/shm_ring.h"

namespace warpline {
namespace {

struct Ring {
  Ring() {
    const auto descriptors = CreateRing(4 << 20);
    if (!descriptors.ok()) return;
    writer = *RingWriter::Attach(*descriptors->Duplicate());
    reader = *RingReader::Attach(*descriptors->Duplicate());
  }
  std::unique_ptr<RingWriter> writer;
  std::unique_ptr<RingReader> reader;
};

// Reads one frame, spinning or sleeping. False when the writer is gone or said stop (kind 0).
bool ReadOne(RingReader* reader, bool sleep, std::string* payload) {
  uint32_t kind = 0;
  for (;;) {
    const auto read = reader->TryRead(&kind, payload);
    if (!read.ok()) return false;
    if (*read) return kind != 0;
    if (sleep && !reader->WaitReadable(absl::Seconds(10))) return false;
  }
}

void RoundTrip(benchmark::State& state) {
  const bool sleep = state.range(0) != 0;
  Ring there;
  Ring back;
  std::thread echo([&] {
    std::string payload;
    while (ReadOne(there.reader.get(), sleep, &payload)) (void)back.writer->TryWrite(1, {payload});
  });
  const std::string message(64, 'x');
  std::string payload;
  while (state.KeepRunning()) {
    (void)there.writer->TryWrite(1, {message});
    ReadOne(back.reader.get(), sleep, &payload);
  }
  (void)there.writer->TryWrite(0, {});
  echo.join();
}
BENCHMARK(RoundTrip)->ArgName("sleep")->Arg(0)->Arg(1)->UseRealTime();

void Throughput(benchmark::State& state) {
  const std::string message(state.range(0), 'x');
  Ring ring;
  std::thread sink([&] {
    std::string payload;
    while (ReadOne(ring.reader.get(), true, &payload)) {
    }
  });
  while (state.KeepRunning()) {
    for (;;) {
      const auto written = ring.writer->TryWrite(1, {message});
      if (!written.ok() || *written) break;
      if (!ring.writer->WaitWritable(absl::Seconds(10))) break;
    }
  }
  state.SetBytesProcessed(state.iterations() * message.size());
  while (true) {
    const auto written = ring.writer->TryWrite(0, {});
    if (!written.ok() || *written) break;
    sched_yield();
  }
  sink.join();
}
BENCHMARK(Throughput)->ArgName("bytes")->Arg(64)->Arg(4096)->Arg(1 << 20)->UseRealTime();

}  // namespace
}  // namespace warpline

BENCHMARK_MAIN();
