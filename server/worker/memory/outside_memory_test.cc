#include "server/worker/memory/outside_memory.h"

#include <map>

#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kFree = OutsideMemory::kAllowance;

// Has a quota, and lets pieces go back only as they were taken.
class FakeCharger : public MemoryCharger {
 public:
  CudaResult Charge(uint32_t, uint64_t bytes) override {
    EXPECT_EQ(bytes % OutsideMemory::kUnit, 0u);
    if (charged + bytes > quota) return CudaResult::kOutOfMemory;
    charged += bytes;
    ++pieces[bytes];
    return CudaResult::kSuccess;
  }
  void Uncharge(uint32_t, uint64_t bytes) override {
    EXPECT_GT(pieces[bytes]--, 0);
    charged -= bytes;
  }

  uint64_t quota = 1024 * kMiB;
  uint64_t charged = 0;
  std::map<uint64_t, int> pieces;
};

class OutsideMemoryTest : public testing::Test {
 protected:
  FakeCharger charger_;
  OutsideMemory outside_{&charger_, 2};
};

TEST_F(OutsideMemoryTest, ALittleOfEachDeviceCostsNothing) {
  EXPECT_EQ(outside_.Take(0, kFree), CudaResult::kSuccess);
  EXPECT_EQ(outside_.Take(1, kFree), CudaResult::kSuccess);
  EXPECT_EQ(charger_.charged, 0u);
  EXPECT_EQ(outside_.Take(0, 1), CudaResult::kSuccess);
  EXPECT_EQ(charger_.charged, OutsideMemory::kUnit);
  EXPECT_EQ(outside_.Take(0, kMiB), CudaResult::kSuccess);
  EXPECT_EQ(charger_.charged, OutsideMemory::kUnit);
}

TEST_F(OutsideMemoryTest, TheQuotaIsTheBound) {
  EXPECT_EQ(outside_.Take(0, kFree + 1024 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(outside_.Take(0, 1), CudaResult::kOutOfMemory);
  EXPECT_EQ(outside_.Take(1, ~uint64_t{0}), CudaResult::kOutOfMemory);
  EXPECT_EQ(charger_.charged, 1024 * kMiB);
  outside_.Give(0, kMiB);
  EXPECT_EQ(outside_.Take(0, kMiB), CudaResult::kSuccess);
}

TEST_F(OutsideMemoryTest, WhatIsGivenBackIsNotChargedAnyMore) {
  EXPECT_EQ(outside_.Take(0, 600 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(outside_.Take(0, 2 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(outside_.Take(0, 20 * kMiB), CudaResult::kSuccess);
  outside_.Give(0, 600 * kMiB);
  // 22 MiB are left, of which 6 are to be charged.
  EXPECT_LE(charger_.charged, 22 * kMiB);
  EXPECT_GE(charger_.charged, 6 * kMiB);
  outside_.Give(0, 22 * kMiB);
  EXPECT_EQ(charger_.charged, 0u);
}

TEST_F(OutsideMemoryTest, AWorkerThatTakesOverHasWhatItFindsInOnePiece) {
  outside_.BeginReplay();
  EXPECT_EQ(outside_.Take(0, 100 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(outside_.Take(0, 50 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(charger_.charged, 0u);
  EXPECT_EQ(outside_.EndReplay(), 150 * kMiB - kFree);
  // The server has it so, too.
  charger_.charged = 150 * kMiB - kFree;
  charger_.pieces[150 * kMiB - kFree] = 1;
  EXPECT_EQ(outside_.Take(0, 4 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(charger_.charged, 154 * kMiB - kFree);
  outside_.Give(0, 154 * kMiB);
  EXPECT_EQ(charger_.charged, 0u);
}

}  // namespace
}  // namespace warpline::worker
