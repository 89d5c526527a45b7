#include "client_stub/arena/allocator.h"
#include "client_stub/arena/testing/fake_session.h"
#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kGiB = 1ull << 30;

class AllocatorAddressesTest : public testing::Test {
 protected:
  uint64_t Reserve(uint64_t bytes, uint64_t alignment = 2 * kMiB, uint64_t wanted = 0) {
    uint64_t address = 0;
    EXPECT_EQ(allocator_.ReserveAddresses(bytes, alignment, wanted, &address),
              CudaResult::kSuccess);
    return address;
  }

  FakeSession session_{1 * kGiB, 64 * kMiB};
  Allocator allocator_{&session_};
};

TEST_F(AllocatorAddressesTest, ReservedAddressesAreNoAllocations) {
  const uint64_t address = Reserve(64 * kMiB);
  Allocation allocation;
  EXPECT_FALSE(allocator_.Find(address, &allocation));
  EXPECT_EQ(allocator_.Free(address), CudaResult::kInvalidValue);
  EXPECT_EQ(session_.requests(), 0);
}

TEST_F(AllocatorAddressesTest, WhereTheyAreWantedElseHighUpAndAligned) {
  const uint64_t first = Reserve(64 * kMiB);
  const uint64_t aligned = Reserve(2 * kMiB, 256 * kMiB);
  EXPECT_EQ(aligned % (256 * kMiB), 0u);
  EXPECT_LT(aligned, first);
  EXPECT_EQ(Reserve(4 * kMiB, 2 * kMiB, aligned + 2 * kMiB), aligned + 2 * kMiB);
  EXPECT_NE(Reserve(4 * kMiB, 2 * kMiB, aligned), aligned);
}

TEST_F(AllocatorAddressesTest, ReleasedAddressesCanBeReservedAgainInOnePiece) {
  const uint64_t first = Reserve(64 * kMiB);
  const uint64_t second = Reserve(64 * kMiB);
  allocator_.ReleaseAddresses(first);
  allocator_.ReleaseAddresses(second);
  EXPECT_EQ(Reserve(128 * kMiB, 2 * kMiB, second), second);
  // Addresses that are no reservation are left alone.
  allocator_.ReleaseAddresses(second + 2 * kMiB);
  allocator_.ReleaseAddresses(12345);
}

TEST_F(AllocatorAddressesTest, AllocationsGrowAroundThem) {
  uint64_t address = 0, more = 0;
  ASSERT_EQ(allocator_.Allocate(64 * kMiB, &address), CudaResult::kSuccess);
  const uint64_t reserved = Reserve(64 * kMiB, 2 * kMiB, address + 64 * kMiB);
  EXPECT_EQ(reserved, address + 64 * kMiB);
  ASSERT_EQ(allocator_.Allocate(128 * kMiB, &more), CudaResult::kSuccess);
  EXPECT_GE(more, reserved + 64 * kMiB);
}

TEST_F(AllocatorAddressesTest, UnusedMemoryGoesBackForOtherUses) {
  uint64_t address = 0;
  ASSERT_EQ(allocator_.Allocate(512 * kMiB, &address), CudaResult::kSuccess);
  ASSERT_EQ(allocator_.Free(address), CudaResult::kSuccess);
  EXPECT_TRUE(session_.Backed(address, 512 * kMiB));
  EXPECT_EQ(allocator_.ReturnUnused(false), CudaResult::kSuccess);
  EXPECT_FALSE(session_.Backed(address, 512 * kMiB));
}

TEST_F(AllocatorAddressesTest, ChargedMemoryIsNotFree) {
  uint64_t before, after, total;
  allocator_.MemoryInfo(&before, &total);
  allocator_.Charge(20 * kMiB);
  allocator_.MemoryInfo(&after, &total);
  EXPECT_EQ(after, before - 20 * kMiB);
  allocator_.Discharge(20 * kMiB);
  allocator_.MemoryInfo(&after, &total);
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace warpline::stub
