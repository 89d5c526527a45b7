#include "server/worker/memory/host_memory.h"

#include "gtest/gtest.h"
#include "server/hostlink/handover/host_bytes.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kUnit = HostMemory::kUnit;
constexpr uint64_t kFree = kFreeImageBytes;

class Purse : public MemoryCharger {
 public:
  CudaResult Charge(uint32_t device, uint64_t bytes) override {
    EXPECT_EQ(device, kHostMemoryNumber);
    EXPECT_EQ(bytes, kUnit);
    if (bytes > left) return CudaResult::kOutOfMemory;
    left -= bytes;
    return CudaResult::kSuccess;
  }
  void Uncharge(uint32_t device, uint64_t bytes) override {
    EXPECT_EQ(device, kHostMemoryNumber);
    EXPECT_EQ(bytes, kUnit);
    left += bytes;
  }
  uint64_t left = 4 * kUnit;
};

TEST(HostMemoryTest, ALittleCostsNothingAndTheRestIsChargedInPieces) {
  Purse purse;
  HostMemory memory(&purse, 0);
  EXPECT_TRUE(memory.Hold(HostMemory::kImages, kFree / 2));
  EXPECT_TRUE(memory.Hold(HostMemory::kJournal, kFree / 2));
  EXPECT_EQ(purse.left, 4 * kUnit);
  EXPECT_TRUE(memory.Hold(HostMemory::kQueue, 1));
  EXPECT_EQ(purse.left, 3 * kUnit);
  EXPECT_TRUE(memory.Hold(HostMemory::kImages, kFree / 2 + 2 * kUnit));
  EXPECT_EQ(purse.left, kUnit);
}

TEST(HostMemoryTest, WhatIsNotGivenIsNotTaken) {
  Purse purse;
  HostMemory memory(&purse, 0);
  EXPECT_TRUE(memory.Hold(HostMemory::kImages, kFree + kUnit));
  EXPECT_FALSE(memory.Hold(HostMemory::kJournal, 4 * kUnit));
  EXPECT_FALSE(memory.Hold(HostMemory::kJournal, ~uint64_t{0}));
  EXPECT_EQ(purse.left, 3 * kUnit);
  EXPECT_TRUE(memory.Hold(HostMemory::kJournal, 3 * kUnit));
  EXPECT_EQ(purse.left, 0u);
  EXPECT_FALSE(memory.Hold(HostMemory::kImages, kFree + kUnit + 1));
  // Less is always right.
  EXPECT_TRUE(memory.Hold(HostMemory::kImages, 0));
}

TEST(HostMemoryTest, WhatIsNotNeededGoesBackButForOnePiece) {
  Purse purse;
  HostMemory memory(&purse, 0);
  EXPECT_TRUE(memory.Hold(HostMemory::kImages, kFree + 4 * kUnit));
  EXPECT_EQ(purse.left, 0u);
  EXPECT_TRUE(memory.Hold(HostMemory::kImages, kFree + 3 * kUnit));
  EXPECT_EQ(purse.left, 0u);
  EXPECT_TRUE(memory.Hold(HostMemory::kImages, kFree + kUnit));
  EXPECT_EQ(purse.left, 2 * kUnit);
  EXPECT_TRUE(memory.Hold(HostMemory::kImages, 0));
  EXPECT_EQ(purse.left, 4 * kUnit);
}

TEST(HostMemoryTest, ANextWorkerGoesOnWithWhatTheFormerHad) {
  Purse purse;
  purse.left = 0;
  HostMemory memory(&purse, 2 * kUnit);
  memory.BeginReplay();
  EXPECT_TRUE(memory.Hold(HostMemory::kJournal, kFree + 2 * kUnit));
  memory.EndReplay();
  EXPECT_FALSE(memory.Hold(HostMemory::kImages, 1));
  EXPECT_TRUE(memory.Hold(HostMemory::kJournal, kFree));
  EXPECT_EQ(purse.left, kUnit);
}

}  // namespace
}  // namespace warpline::worker
