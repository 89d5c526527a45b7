// Tests the order of operations on streams, without a device.
#include "server/device/cpu/streams/stream_set.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::cpu {
namespace {

constexpr uint64_t kLegacy = 1;

// Work that waits until it is let through.
class Gate {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mu_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  bool open_ = false;
};

class StreamSetTest : public ::testing::Test {
 protected:
  uint64_t NewStream(uint32_t flags) {
    uint64_t id = 0;
    EXPECT_EQ(streams_.CreateStream(0, flags, &id), CudaResult::kSuccess);
    return id;
  }
  void Note(uint64_t stream, char mark) {
    ASSERT_EQ(streams_.Submit(stream, StreamSet::When::kNowIfPossible,
                              [this, mark] {
                                std::lock_guard<std::mutex> lock(mu_);
                                log_ += mark;
                                return CudaResult::kSuccess;
                              }),
              CudaResult::kSuccess);
  }
  void Block(uint64_t stream, Gate* gate) {
    ASSERT_EQ(streams_.Submit(stream, StreamSet::When::kQueued,
                              [gate] {
                                gate->Wait();
                                return CudaResult::kSuccess;
                              }),
              CudaResult::kSuccess);
  }
  std::string Log() {
    std::lock_guard<std::mutex> lock(mu_);
    return log_;
  }

  std::mutex mu_;
  std::string log_;
  StreamSet streams_;
};

TEST_F(StreamSetTest, AStreamKeepsItsOrder) {
  Gate gate;
  const uint64_t stream = NewStream(1);
  Block(stream, &gate);
  for (const char mark : {'a', 'b', 'c'}) Note(stream, mark);
  EXPECT_EQ(Log(), "");
  gate.Open();
  streams_.Drain();
  EXPECT_EQ(Log(), "abc");
}

TEST_F(StreamSetTest, ShortWorkOnAnIdleStreamRunsAtOnce) {
  Note(kLegacy, 'a');
  EXPECT_EQ(Log(), "a");
}

TEST_F(StreamSetTest, RunIfIdleRunsNothingOutOfTurn) {
  Gate gate;
  const uint64_t blocking = NewStream(0);
  const uint64_t free = NewStream(1);
  int runs = 0;
  const StreamSet::Work work = [&] {
    ++runs;
    return CudaResult::kSuccess;
  };
  EXPECT_TRUE(streams_.RunIfIdle(kLegacy, work));
  Block(blocking, &gate);
  EXPECT_FALSE(streams_.RunIfIdle(blocking, work));
  EXPECT_FALSE(streams_.RunIfIdle(kLegacy, work));
  EXPECT_TRUE(streams_.RunIfIdle(free, work));
  EXPECT_FALSE(streams_.RunIfIdle(99, work));
  gate.Open();
  streams_.Drain();
  EXPECT_TRUE(streams_.RunIfIdle(blocking, work));
  EXPECT_EQ(runs, 3);
}

TEST_F(StreamSetTest, LegacyStreamAndBlockingStreamsWaitForEachOther) {
  Gate gate;
  const uint64_t blocking = NewStream(0);
  const uint64_t other = NewStream(0);
  const uint64_t free = NewStream(1);
  Block(blocking, &gate);
  Note(kLegacy, 'l');  // Waits for `blocking`
  Note(other, 'o');    // Waits for the legacy stream
  Note(free, 'f');     // Waits for no other stream
  EXPECT_EQ(Log(), "f");
  gate.Open();
  streams_.Drain();
  EXPECT_EQ(Log(), "flo");
}

TEST_F(StreamSetTest, WaitCapturesTheRecordAtTheCall) {
  Gate gate;
  const uint64_t a = NewStream(1);
  const uint64_t b = NewStream(1);
  uint64_t event = 0;
  ASSERT_EQ(streams_.CreateEvent(2, &event), CudaResult::kSuccess);
  Block(a, &gate);
  // The event is not recorded yet, so there is nothing to wait for.
  ASSERT_EQ(streams_.WaitEvent(b, event), CudaResult::kSuccess);
  Note(b, '1');
  EXPECT_EQ(Log(), "1");
  ASSERT_EQ(streams_.RecordEvent(event, a), CudaResult::kSuccess);
  EXPECT_EQ(streams_.QueryEvent(event), CudaResult::kNotReady);
  ASSERT_EQ(streams_.WaitEvent(b, event), CudaResult::kSuccess);
  ASSERT_EQ(streams_.DestroyEvent(event), CudaResult::kSuccess);
  Note(b, '2');
  Note(a, '3');
  EXPECT_EQ(Log(), "1");
  gate.Open();
  streams_.Drain();
  EXPECT_EQ(Log().size(), 3u);
}

TEST_F(StreamSetTest, AnErrorStopsWhatFollowsAndStays) {
  const uint64_t stream = NewStream(1);
  streams_.Submit(stream, StreamSet::When::kQueued, [] { return CudaResult::kIllegalAddress; });
  streams_.Drain();
  EXPECT_EQ(streams_.error(), CudaResult::kIllegalAddress);
  EXPECT_EQ(streams_.Submit(stream, StreamSet::When::kQueued,
                            [this] {
                              log_ += 'x';
                              return CudaResult::kSuccess;
                            }),
            CudaResult::kIllegalAddress);
  streams_.Drain();
  EXPECT_EQ(Log(), "");
}

TEST_F(StreamSetTest, ADestroyedStreamFinishesItsWork) {
  Gate gate;
  const uint64_t stream = NewStream(0);
  Block(stream, &gate);
  Note(stream, 'a');
  ASSERT_EQ(streams_.DestroyStream(stream), CudaResult::kSuccess);
  EXPECT_EQ(streams_.DestroyStream(stream), CudaResult::kInvalidHandle);
  EXPECT_EQ(streams_.Submit(stream, StreamSet::When::kQueued, nullptr), CudaResult::kInvalidHandle);
  gate.Open();
  streams_.Drain();
  EXPECT_EQ(Log(), "a");
  EXPECT_EQ(streams_.DestroyStream(kLegacy), CudaResult::kInvalidHandle);
}

TEST_F(StreamSetTest, ElapsedTimeNeedsTwoTimedRecords) {
  uint64_t timed = 0, untimed = 0, unrecorded = 0;
  streams_.CreateEvent(0, &timed);
  streams_.CreateEvent(2, &untimed);
  streams_.CreateEvent(0, &unrecorded);
  streams_.RecordEvent(timed, kLegacy);
  streams_.RecordEvent(untimed, kLegacy);
  float ms = -1;
  EXPECT_EQ(streams_.ElapsedMs(timed, timed, &ms), CudaResult::kSuccess);
  EXPECT_EQ(ms, 0);
  EXPECT_EQ(streams_.ElapsedMs(timed, untimed, &ms), CudaResult::kInvalidHandle);
  EXPECT_EQ(streams_.ElapsedMs(timed, unrecorded, &ms), CudaResult::kInvalidHandle);
}

TEST_F(StreamSetTest, ManyStreamsAtOnce) {
  std::atomic<int> count{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const uint64_t stream = NewStream(static_cast<uint32_t>(count.load() & 1));
      for (int i = 0; i < 200; ++i) {
        streams_.Submit(i % 16 == 0 ? kLegacy : stream,
                        i % 3 == 0 ? StreamSet::When::kQueued : StreamSet::When::kNowIfPossible,
                        [&] {
                          count.fetch_add(1);
                          return CudaResult::kSuccess;
                        });
      }
      streams_.DestroyStream(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  streams_.Drain();
  EXPECT_EQ(count.load(), 800);
}

TEST(StreamSetEndTest, DestructionDropsWhatIsQueued) {
  Gate gate;
  std::atomic<bool> started{false}, ran{false};
  std::thread opener;
  {
    StreamSet streams;
    streams.Submit(kLegacy, StreamSet::When::kQueued, [&] {
      started = true;
      gate.Wait();
      return CudaResult::kSuccess;
    });
    streams.Submit(kLegacy, StreamSet::When::kQueued, [&] {
      ran = true;
      return CudaResult::kSuccess;
    });
    while (!started) std::this_thread::yield();
    const std::atomic<bool>& stopping = streams.stopping();
    opener = std::thread([&gate, &stopping] {
      while (!stopping.load()) std::this_thread::yield();
      gate.Open();
    });
  }
  opener.join();
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace warpline::cpu
