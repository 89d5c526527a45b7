// Random use of the allocator against a model that knows what may be in use: live allocations, and
// freed ones whose work has not retired.
#include <algorithm>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "client_stub/arena/allocator.h"
#include "client_stub/arena/testing/fake_session.h"
#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kGiB = 1ull << 30;

class Model {
 public:
  Model(uint64_t quota, uint64_t initial, uint32_t seed)
      : session_(quota, initial, 8 * kGiB), random_(seed) {}

  void Run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      switch (random_() % 10) {
        case 0:
        case 1:
        case 2:
        case 3:
          AllocateOne();
          break;
        case 4:
        case 5:
        case 6:
          FreeOne();
          break;
        case 7:
          session_.Work(random_() % kStreams);
          break;
        case 8:
          if (random_() % 4 == 0) session_.RetireStream(random_() % kStreams);
          break;
        case 9:
          if (random_() % 8 == 0) session_.RetireAll();
          if (random_() % 64 == 0) allocator_.ForgetStream(random_() % kStreams);
          break;
      }
      ASSERT_EQ(session_.complaint(), "");
      ASSERT_LE(session_.granted_bytes(), session_.terms().device().total_bytes);
    }
    FreeEverything();
  }

 private:
  static constexpr uint64_t kStreams = 3;
  static constexpr uint64_t kAnyStream = ~uint64_t{0};

  struct Range {
    uint64_t bytes;
    bool live;
    uint64_t seq = 0;              // The latest command at the free.
    uint64_t stream = kAnyStream;  // Set for a stream-ordered free.
  };

  uint64_t RandomSize() {
    switch (random_() % 8) {
      case 0:
        return 1 + random_() % (300 * kMiB);
      case 1:
      case 2:
        return 1 + random_() % (8 * kMiB);
      default:
        return 1 + random_() % 100000;
    }
  }

  // Drops freed ranges whose work has retired.
  void DropRetired() {
    std::erase_if(ranges_, [&](const auto& entry) {
      const Range& range = entry.second;
      return !range.live && session_.Retired(range.stream, range.seq);
    });
  }

  void AllocateOne() {
    const uint64_t bytes = RandomSize();
    const bool stream_ordered = random_() % 2 == 0;
    const uint64_t stream = random_() % kStreams;
    uint64_t address = 0;
    const CudaResult result = stream_ordered ? allocator_.AllocateAsync(bytes, stream, &address)
                                             : allocator_.Allocate(bytes, &address);
    DropRetired();
    if (result != CudaResult::kSuccess) {
      ASSERT_EQ(result, CudaResult::kOutOfMemory);
      // The allocator waited for everything before it gave up, or there was nothing to wait for.
      ++out_of_memory_;
      return;
    }
    ASSERT_EQ(address % 512, 0u);
    ASSERT_TRUE(session_.Backed(address, bytes));
    // The stream that freed a range may use it again.
    std::erase_if(ranges_, [&](const auto& entry) {
      return !entry.second.live && stream_ordered && entry.second.stream == stream &&
             entry.first < address + bytes && address < entry.first + entry.second.bytes;
    });
    const auto next = ranges_.lower_bound(address);
    if (next != ranges_.end()) {
      ASSERT_GE(next->first, address + bytes);
    }
    if (next != ranges_.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second.bytes, address);
    }
    ranges_[address] = {bytes, true};
    live_.push_back(address);
    ASSERT_TRUE(allocator_.Contains(address, bytes));
  }

  void FreeOne() {
    if (live_.empty()) return;
    std::swap(live_[random_() % live_.size()], live_.back());
    const uint64_t address = live_.back();
    live_.pop_back();
    Range& range = ranges_[address];
    range.live = false;
    range.seq = session_.last_seq();
    if (random_() % 2 == 0) {
      range.stream = random_() % kStreams;
      ASSERT_EQ(allocator_.FreeAsync(address, range.stream), CudaResult::kSuccess);
    } else {
      ASSERT_EQ(allocator_.Free(address), CudaResult::kSuccess);
    }
    ASSERT_FALSE(allocator_.Contains(address, 1));
  }

  void FreeEverything() {
    while (!live_.empty()) FreeOne();
    session_.RetireAll();
    uint64_t free = 0;
    uint64_t total = 0;
    allocator_.MemoryInfo(&free, &total);
    EXPECT_EQ(free, total);
    // Everything has come back and grown together: the whole quota is one allocation.
    uint64_t address = 0;
    EXPECT_EQ(allocator_.Allocate(total, &address), CudaResult::kSuccess);
    EXPECT_EQ(session_.granted_bytes(), total);
    EXPECT_EQ(session_.complaint(), "");
  }

  FakeSession session_;
  Allocator allocator_{&session_};
  std::mt19937 random_;
  std::map<uint64_t, Range> ranges_;
  std::vector<uint64_t> live_;
  int out_of_memory_ = 0;
};

TEST(AllocatorPropertyTest, NothingInUseIsHandedOutTwice) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Model(2 * kGiB, seed % 2 == 0 ? 64 * kMiB : 0, seed).Run(3000);
  }
}

TEST(AllocatorPropertyTest, ShortQuotaIsNeverExceeded) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Model(400 * kMiB, 2 * kMiB, 100 + seed).Run(3000);
  }
}

TEST(AllocatorPropertyTest, ThreadsGetDisjointMemory) {
  FakeSession session(4 * kGiB, 64 * kMiB);
  Allocator allocator(&session);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      std::vector<std::pair<uint64_t, uint64_t>> mine;
      for (int i = 0; i < 2000; ++i) {
        if (mine.size() < 50 && random() % 2 == 0) {
          const uint64_t bytes = 1 + random() % (4 * kMiB);
          uint64_t address = 0;
          const CudaResult result = random() % 2 == 0 ? allocator.Allocate(bytes, &address)
                                                      : allocator.AllocateAsync(bytes, t, &address);
          ASSERT_EQ(result, CudaResult::kSuccess);
          for (const auto& [base, size] : mine) {
            ASSERT_TRUE(address >= base + size || base >= address + bytes);
          }
          ASSERT_TRUE(allocator.Contains(address, bytes));
          mine.push_back({address, bytes});
        } else if (!mine.empty()) {
          session.Work(t);
          const uint64_t address = mine.back().first;
          mine.pop_back();
          ASSERT_EQ(random() % 2 == 0 ? allocator.Free(address) : allocator.FreeAsync(address, t),
                    CudaResult::kSuccess);
          if (random() % 16 == 0) session.RetireAll();
        }
      }
      for (const auto& [base, size] : mine) ASSERT_EQ(allocator.Free(base), CudaResult::kSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
  session.RetireAll();
  uint64_t address = 0;
  EXPECT_EQ(allocator.Allocate(4 * kGiB, &address), CudaResult::kSuccess);
  EXPECT_EQ(session.complaint(), "");
}

}  // namespace
}  // namespace warpline::stub
