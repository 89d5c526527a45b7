#include "client_stub/arena/allocator.h"

#include <vector>

#include "client_stub/arena/testing/fake_session.h"
#include "gtest/gtest.h"
#include "proto/devices.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kGiB = 1ull << 30;

class AllocatorTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(session_.complaint(), ""); }

  uint64_t Allocate(uint64_t bytes) {
    uint64_t address = 0;
    EXPECT_EQ(allocator_.Allocate(bytes, &address), CudaResult::kSuccess);
    EXPECT_TRUE(session_.Backed(address, bytes));
    return address;
  }
  uint64_t AllocateAsync(uint64_t bytes, uint64_t stream) {
    uint64_t address = 0;
    EXPECT_EQ(allocator_.AllocateAsync(bytes, stream, &address), CudaResult::kSuccess);
    EXPECT_TRUE(session_.Backed(address, bytes));
    return address;
  }
  CudaResult TryAllocate(uint64_t bytes) {
    uint64_t address = 0;
    return allocator_.Allocate(bytes, &address);
  }

  absl::Time now_ = absl::UnixEpoch();
  FakeSession session_{16 * kGiB, 64 * kMiB};
  Allocator allocator_{&session_, 0, [this] { return now_; }};
};

TEST_F(AllocatorTest, FirstAllocationsNeedNoRequest) {
  const uint64_t a = Allocate(1);
  const uint64_t b = Allocate(32 * kMiB);
  EXPECT_EQ(session_.requests(), 0);
  EXPECT_NE(a, b);
  EXPECT_EQ(a % 512, 0u);
  EXPECT_EQ(b % 512, 0u);
  EXPECT_GE(a, FakeSession::kArenaBase + kArenaMargin);
}

TEST_F(AllocatorTest, ArgumentsAreChecked) {
  EXPECT_EQ(TryAllocate(0), CudaResult::kInvalidValue);
  EXPECT_EQ(TryAllocate(~0ull), CudaResult::kOutOfMemory);
  EXPECT_EQ(TryAllocate(17 * kGiB), CudaResult::kOutOfMemory);
  const uint64_t a = Allocate(1000);
  EXPECT_EQ(allocator_.Free(a + 512), CudaResult::kInvalidValue);
  EXPECT_EQ(allocator_.Free(0), CudaResult::kInvalidValue);
  EXPECT_EQ(allocator_.Free(a), CudaResult::kSuccess);
  EXPECT_EQ(allocator_.Free(a), CudaResult::kInvalidValue);
  EXPECT_EQ(allocator_.FreeAsync(a, 1), CudaResult::kInvalidValue);
  EXPECT_EQ(session_.requests(), 0);
}

TEST_F(AllocatorTest, DoubleFreeIsFoundWhileTheFirstIsRetiring) {
  const uint64_t a = Allocate(1000);
  session_.Work(1);
  EXPECT_EQ(allocator_.Free(a), CudaResult::kSuccess);
  EXPECT_EQ(allocator_.Free(a), CudaResult::kInvalidValue);
}

TEST_F(AllocatorTest, FreedMemoryIsReusedAtOnceWhenTheSessionIsIdle) {
  const uint64_t a = Allocate(10 * kMiB);
  EXPECT_EQ(allocator_.Free(a), CudaResult::kSuccess);
  EXPECT_EQ(session_.fences(), 0);
  EXPECT_EQ(Allocate(10 * kMiB), a);
}

TEST_F(AllocatorTest, FreedMemoryIsNotReusedBeforeWorkRetires) {
  const uint64_t a = Allocate(40 * kMiB);
  session_.Work(1);
  EXPECT_EQ(allocator_.Free(a), CudaResult::kSuccess);
  EXPECT_EQ(session_.fences(), 1);
  const uint64_t b = Allocate(40 * kMiB);  // Fresh addresses meanwhile.
  EXPECT_NE(a, b);
  EXPECT_EQ(session_.requests(), 1);
  session_.RetireAll();
  EXPECT_EQ(allocator_.Free(b), CudaResult::kSuccess);
  const uint64_t c = Allocate(40 * kMiB);
  EXPECT_TRUE(c == a || c == b);
  EXPECT_EQ(session_.requests(), 1);
}

TEST_F(AllocatorTest, FreesShareFences) {
  std::vector<uint64_t> addresses;
  for (int i = 0; i < 300; ++i) addresses.push_back(Allocate(512));
  session_.Work(1);
  for (const uint64_t a : addresses) EXPECT_EQ(allocator_.Free(a), CudaResult::kSuccess);
  EXPECT_GE(session_.fences(), 2);
  EXPECT_LE(session_.fences(), 20);
}

TEST_F(AllocatorTest, WhatNoFenceCoversComesBackWithTheBoard) {
  const uint64_t a = Allocate(20 * kMiB);
  const uint64_t b = Allocate(20 * kMiB);
  Allocate(24 * kMiB);
  session_.Work(1);
  EXPECT_EQ(allocator_.Free(a), CudaResult::kSuccess);
  EXPECT_EQ(allocator_.Free(b), CudaResult::kSuccess);  // The fence of `a` is under way.
  EXPECT_EQ(session_.fences(), 1);
  session_.RetireAll();
  EXPECT_EQ(Allocate(40 * kMiB), a);
  EXPECT_EQ(session_.requests(), 0);
}

TEST_F(AllocatorTest, StreamReusesItsOwnMemoryAtOnce) {
  const uint64_t a = AllocateAsync(kMiB, 1);
  session_.Work(1);
  EXPECT_EQ(allocator_.FreeAsync(a, 1), CudaResult::kSuccess);
  EXPECT_EQ(AllocateAsync(kMiB, 1), a);
  EXPECT_EQ(allocator_.FreeAsync(a, 1), CudaResult::kSuccess);
  EXPECT_EQ(AllocateAsync(kMiB - 100, 1), a);
  EXPECT_EQ(session_.fences(), 0);
}

TEST_F(AllocatorTest, OtherStreamsWaitUntilTheFreeingStreamIsThere) {
  const uint64_t a = AllocateAsync(60 * kMiB, 1);
  session_.Work(2);
  session_.Work(1);
  EXPECT_EQ(allocator_.FreeAsync(a, 1), CudaResult::kSuccess);
  const uint64_t b = AllocateAsync(60 * kMiB, 2);
  EXPECT_NE(a, b);
  session_.RetireStream(1);  // Stream 2 still runs.
  uint64_t reused = 0;
  for (int i = 0; i < 40 && reused != a; ++i) reused = AllocateAsync(60 * kMiB, 2);
  EXPECT_EQ(reused, a);
}

TEST_F(AllocatorTest, EitherFreeTakesEitherAllocation) {
  const uint64_t a = AllocateAsync(kMiB, 1);
  const uint64_t b = Allocate(kMiB);
  Allocation allocation;
  ASSERT_TRUE(allocator_.Find(a, &allocation));
  EXPECT_TRUE(allocation.stream_ordered);
  ASSERT_TRUE(allocator_.Find(b, &allocation));
  EXPECT_FALSE(allocation.stream_ordered);
  session_.Work(1);
  EXPECT_EQ(allocator_.Free(a), CudaResult::kSuccess);
  EXPECT_EQ(allocator_.FreeAsync(b, 1), CudaResult::kSuccess);
  EXPECT_EQ(AllocateAsync(kMiB, 1), b);
}

TEST_F(AllocatorTest, ForgottenStreamsMemoryComesBack) {
  const uint64_t a = AllocateAsync(60 * kMiB, 1);
  session_.Work(1);
  EXPECT_EQ(allocator_.FreeAsync(a, 1), CudaResult::kSuccess);
  allocator_.ForgetStream(1);
  allocator_.ForgetStream(99);
  EXPECT_EQ(session_.fences(), 1);
  EXPECT_NE(AllocateAsync(kMiB, 1), a);
  session_.RetireAll();
  EXPECT_EQ(Allocate(60 * kMiB), a);
}

TEST_F(AllocatorTest, FindKnowsTheAllocationButNotItsSurroundings) {
  const uint64_t a = Allocate(1000);
  Allocation allocation;
  ASSERT_TRUE(allocator_.Find(a + 999, &allocation));
  EXPECT_EQ(allocation.base, a);
  EXPECT_EQ(allocation.bytes, 1000u);
  EXPECT_FALSE(allocator_.Find(a + 1000, &allocation));
  EXPECT_FALSE(allocator_.Find(a - 1, &allocation));
  EXPECT_FALSE(allocator_.Find(0, &allocation));
  EXPECT_FALSE(allocator_.Find(~0ull, &allocation));
  EXPECT_TRUE(allocator_.Contains(a, 1000));
  EXPECT_TRUE(allocator_.Contains(a + 500, 500));
  EXPECT_FALSE(allocator_.Contains(a + 500, 501));
  EXPECT_FALSE(allocator_.Contains(a, ~0ull));
  session_.Work(1);
  EXPECT_EQ(allocator_.Free(a), CudaResult::kSuccess);
  EXPECT_FALSE(allocator_.Find(a, &allocation));
}

TEST_F(AllocatorTest, MemoryInfoCountsFreedMemoryAsFree) {
  uint64_t free = 0;
  uint64_t total = 0;
  const uint64_t a = Allocate(kGiB);
  allocator_.MemoryInfo(&free, &total);
  EXPECT_EQ(total, 16 * kGiB);
  EXPECT_EQ(free, 15 * kGiB);
  session_.Work(1);
  EXPECT_EQ(allocator_.Free(a), CudaResult::kSuccess);
  allocator_.MemoryInfo(&free, &total);
  EXPECT_EQ(free, 16 * kGiB);
}

TEST_F(AllocatorTest, FourGiBInMixedSizesCostFewRequests) {
  uint64_t sum = 0;
  for (uint64_t i = 0; sum < 4 * kGiB; ++i) {
    const uint64_t bytes = 512 + (i * 7919 * 4099) % (20 * kMiB);
    Allocate(bytes);
    sum += bytes;
  }
  // They double up to a GiB.
  EXPECT_LE(session_.requests(), 9);
  EXPECT_EQ(session_.refusals(), 0);
}

TEST_F(AllocatorTest, LargeAllocationsAreGrantsOfTheirOwn) {
  Allocate(kMiB);
  const uint64_t large = Allocate(3 * kGiB - 1000);
  EXPECT_EQ(session_.granted_bytes(), 64 * kMiB + 3 * kGiB);
  EXPECT_EQ(allocator_.Free(large), CudaResult::kSuccess);
  // Nothing small is put there, and another of its size is.
  const uint64_t small = Allocate(63 * kMiB);
  EXPECT_TRUE(small + 63 * kMiB <= large || small >= large + 3 * kGiB);
  const int requests = session_.requests();
  EXPECT_EQ(Allocate(3 * kGiB), large);
  EXPECT_EQ(session_.requests(), requests);
}

TEST_F(AllocatorTest, SmallAllocationsKeepLittleOfWhatIsFreeFromBeingOneAllocation) {
  std::vector<uint64_t> large;
  for (int i = 0; i < 10; ++i) {
    large.push_back(Allocate((100 + i) * kMiB));
    Allocate(1000);
  }
  for (const uint64_t address : large) EXPECT_EQ(allocator_.Free(address), CudaResult::kSuccess);
  for (int i = 0; i < 10; ++i) Allocate(1000);
  Allocate(16 * kGiB - 64 * kMiB);
}

TEST_F(AllocatorTest, FreeGrantsOfAnotherSizeGoBackBeforeMoreIsAskedFor) {
  for (int i = 0; i < 40; ++i) {
    const uint64_t a = Allocate((2000 + 2 * i) * kMiB);
    EXPECT_EQ(allocator_.Free(a), CudaResult::kSuccess);
  }
  EXPECT_LE(session_.granted_bytes(), 7 * kGiB);
}

TEST_F(AllocatorTest, LargeAllocationMaySpanGrantsWhereTheQuotaIsShort) {
  const uint64_t a = Allocate(10 * kMiB);
  const uint64_t b = Allocate(16 * kGiB - 10 * kMiB);
  EXPECT_EQ(b, a + 10 * kMiB);
  EXPECT_EQ(session_.granted_bytes(), 16 * kGiB);
  EXPECT_EQ(allocator_.Free(b), CudaResult::kSuccess);
  EXPECT_EQ(Allocate(16 * kGiB - 10 * kMiB), b);
}

TEST_F(AllocatorTest, NoIdleGrantIsHeldBesideALargeAllocation) {
  Allocate(kGiB);
  EXPECT_EQ(session_.granted_bytes(), kGiB);
  Allocate(10 * kMiB);
  Allocate(kGiB);
  EXPECT_EQ(session_.granted_bytes(), 2 * kGiB + 64 * kMiB);
}

TEST_F(AllocatorTest, WholeQuotaCanBeAllocated) {
  const uint64_t a = Allocate(16 * kGiB);
  EXPECT_EQ(TryAllocate(1), CudaResult::kOutOfMemory);
  EXPECT_EQ(allocator_.Free(a), CudaResult::kSuccess);
  Allocate(16 * kGiB);
}

TEST_F(AllocatorTest, QuotaThatIsUsedUpIsTheReason) {
  EXPECT_EQ(TryAllocate(17 * kGiB), CudaResult::kOutOfMemory);
  Allocate(16 * kGiB - 64 * kMiB);
  EXPECT_EQ(TryAllocate(1 * kGiB), CudaResult::kOutOfMemory);
  const auto why = session_.refused_because();
  ASSERT_EQ(why.size(), 2u);
  EXPECT_EQ(why[0], "quota of 17179869184 bytes: 67108864 in use, 18253611008 wanted");
  EXPECT_EQ(why[1], "quota of 17179869184 bytes: 17112760320 in use, 1073741824 wanted");
}

TEST_F(AllocatorTest, ServersRefusalIsOutOfMemory) {
  session_.SetServerLimit(256 * kMiB);
  Allocate(200 * kMiB);
  const int refusals = session_.refusals();
  EXPECT_EQ(TryAllocate(100 * kMiB), CudaResult::kOutOfMemory);
  EXPECT_GT(session_.refusals(), refusals);
  Allocate(40 * kMiB);
  // The server itself says why.
  EXPECT_TRUE(session_.refused_because().empty());
}

TEST_F(AllocatorTest, ShortQuotaWaitsForFreedMemoryToRetire) {
  const uint64_t a = Allocate(12 * kGiB);
  session_.Work(1);
  EXPECT_EQ(allocator_.Free(a), CudaResult::kSuccess);
  EXPECT_EQ(session_.counters().free_waits, 0u);
  Allocate(12 * kGiB);
  EXPECT_EQ(session_.counters().free_waits, 1u);
}

TEST_F(AllocatorTest, ShortQuotaWaitsForStreamOrderedFreesToo) {
  const uint64_t a = AllocateAsync(12 * kGiB, 1);
  session_.Work(1);
  EXPECT_EQ(allocator_.FreeAsync(a, 1), CudaResult::kSuccess);
  AllocateAsync(12 * kGiB, 2);
  EXPECT_EQ(session_.counters().free_waits, 1u);
}

TEST_F(AllocatorTest, OutOfMemoryIsNotWaitedForWhenNothingWasFreed) {
  Allocate(12 * kGiB);
  session_.Work(1);
  EXPECT_EQ(TryAllocate(8 * kGiB), CudaResult::kOutOfMemory);
  EXPECT_EQ(session_.counters().free_waits, 0u);
}

TEST_F(AllocatorTest, FragmentedFreeGrantsAreExchangedForContiguousMemory) {
  // Grants of about 1 GiB with an allocation at the end of every fourth.
  std::vector<uint64_t> addresses;
  for (int i = 0; i < 16; ++i) addresses.push_back(Allocate(1000 * kMiB));
  const int requests = session_.requests();
  for (int i = 0; i < 16; ++i) {
    if (i % 4 == 3) continue;
    EXPECT_EQ(allocator_.Free(addresses[i]), CudaResult::kSuccess);
  }
  Allocate(8 * kGiB);
  EXPECT_GT(session_.returns(), 0);
  EXPECT_GT(session_.requests(), requests);
}

TEST_F(AllocatorTest, UnusedGrantsGoBackAfterAQuietTime) {
  const uint64_t a = Allocate(4 * kGiB);
  const uint64_t b = Allocate(4 * kGiB);
  const int returns = session_.returns();
  EXPECT_EQ(allocator_.Free(a), CudaResult::kSuccess);
  EXPECT_EQ(session_.returns(), returns);  // The memory may be wanted again.
  now_ += absl::Seconds(11);
  EXPECT_EQ(allocator_.Free(b), CudaResult::kSuccess);
  EXPECT_GT(session_.returns(), returns);
  EXPECT_GE(session_.granted_bytes(), kGiB);
  Allocate(12 * kGiB);
}

TEST_F(AllocatorTest, LostSessionsErrorComesBack) {
  session_.Fail(CudaResult::kLaunchFailed);
  Allocate(1000);  // This needs no request.
  EXPECT_EQ(TryAllocate(kGiB), CudaResult::kLaunchFailed);
  session_.Fail(CudaResult::kSuccess);
  Allocate(kGiB);
}

TEST(AllocatorSmallArenaTest, AddressesAreUsedAgain) {
  // 4 GiB of addresses for 3 GiB of memory: returned ranges must come back.
  FakeSession session(3 * kGiB, 0, 4 * kGiB);
  Allocator allocator(&session);
  for (int i = 0; i < 20; ++i) {
    uint64_t a = 0;
    uint64_t b = 0;
    ASSERT_EQ(allocator.Allocate(kGiB + i * kMiB, &a), CudaResult::kSuccess);
    ASSERT_EQ(allocator.Allocate(kGiB, &b), CudaResult::kSuccess);
    session.Work(1);
    ASSERT_EQ(allocator.Free(a), CudaResult::kSuccess);
    ASSERT_EQ(allocator.Free(b), CudaResult::kSuccess);
  }
  EXPECT_EQ(session.complaint(), "");
}

TEST(AllocatorDevicesTest, EachDeviceHasItsPartQuotaAndFences) {
  FakeSession session(4 * kGiB, 64 * kMiB, 1ull << 40, 3);
  Allocator first(&session, 0);
  Allocator last(&session, 2);
  const uint64_t part = (1ull << 40) / 4;
  uint64_t a, b;
  ASSERT_EQ(first.Allocate(1000, &a), CudaResult::kSuccess);
  EXPECT_EQ(session.requests(), 0);  // The initial memory is the first device's.
  ASSERT_EQ(last.Allocate(3 * kGiB, &b), CudaResult::kSuccess);
  EXPECT_EQ(DeviceOfAddress(a, FakeSession::kArenaBase, 1ull << 40, 3), 0u);
  EXPECT_EQ(DeviceOfAddress(b, FakeSession::kArenaBase, 1ull << 40, 3), 2u);
  EXPECT_GE(b, FakeSession::kArenaBase + 2 * part + kArenaMargin);
  uint64_t other;
  ASSERT_EQ(first.Allocate(3 * kGiB, &other), CudaResult::kSuccess);
  EXPECT_EQ(last.Allocate(2 * kGiB, &other), CudaResult::kOutOfMemory);
  EXPECT_FALSE(first.Contains(b, 1));
  EXPECT_EQ(first.Free(b), CudaResult::kInvalidValue);
  // The fence of one device says nothing about the other's.
  session.Work(1);
  ASSERT_EQ(last.Free(b), CudaResult::kSuccess);
  EXPECT_EQ(session.fences(), 1);
  session.RetireAll();
  uint64_t again;
  ASSERT_EQ(last.Allocate(3 * kGiB, &again), CudaResult::kSuccess);
  EXPECT_EQ(again, b);
  EXPECT_EQ(session.complaint(), "");
}

}  // namespace
}  // namespace warpline::stub
