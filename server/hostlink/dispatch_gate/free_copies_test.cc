#include "server/hostlink/dispatch_gate/free_copies.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace warpline::dispatch {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// Bytes and copies that are free in ten seconds of one that always has the next one.
struct Had {
  uint64_t bytes = 0;
  uint64_t copies = 0;
};
Had InTenSeconds(uint64_t bytes) {
  FreeCopies copies;
  Had had;
  for (int64_t now_ns = kSecond; now_ns < 11 * kSecond; now_ns += 5'000) {
    if (!copies.Take(bytes, now_ns)) continue;
    had.bytes += bytes;
    ++had.copies;
  }
  return had;
}

TEST(FreeCopies, ALargeOneIsNever) {
  FreeCopies copies;
  EXPECT_FALSE(copies.Take(FreeCopies::kSmallBytes, kSecond));
  EXPECT_TRUE(copies.Take(FreeCopies::kSmallBytes - 1, kSecond));
}

TEST(FreeCopies, WhatALargeOneIsCutIntoIsOnlyUpToARate) {
  const uint64_t most = 10 * FreeCopies::kBytesPerSecond + FreeCopies::kBurstBytes;
  for (const uint64_t bytes : {4u << 10, 16u << 10, 63u << 10}) {
    EXPECT_LE(InTenSeconds(bytes).bytes, most) << bytes;
    EXPECT_GE(InTenSeconds(bytes).bytes, most * 9 / 10) << bytes;
  }
}

TEST(FreeCopies, SoAreTinyOnesByTheirNumber) {
  const Had had = InTenSeconds(4);
  EXPECT_LE(had.copies, 10 * 8192 + 256u);
  EXPECT_GE(had.copies, 10 * 8000u);
}

TEST(FreeCopies, SessionsOfOneLedgerHaveTheRateTogether) {
  constexpr uint32_t kSessions = 16;
  constexpr uint64_t kBytes = 16u << 10;
  std::vector<FreeCopies> sessions(kSessions);
  uint64_t bytes = 0;
  for (int64_t now_ns = kSecond; now_ns < 11 * kSecond; now_ns += 100'000) {
    for (FreeCopies& copies : sessions) {
      if (copies.Take(kBytes, now_ns, kSessions)) bytes += kBytes;
    }
  }
  const uint64_t most = 10 * FreeCopies::kBytesPerSecond + FreeCopies::kBurstBytes;
  EXPECT_LE(bytes, most);
  EXPECT_GE(bytes, most * 8 / 10);
}

TEST(FreeCopies, WhoReadsBackANumberEachStepNeverAsks) {
  FreeCopies copies;
  for (int64_t step = 0; step < 50'000; ++step) {
    EXPECT_TRUE(copies.Take(4, kSecond + step * 200'000)) << step;
  }
}

TEST(FreeCopies, ThreadsTakeNoMoreTogether) {
  FreeCopies copies;
  std::atomic<uint64_t> bytes{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) {
        if (copies.Take(16u << 10, kSecond)) bytes += 16u << 10;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bytes, FreeCopies::kBurstBytes);
}

}  // namespace
}  // namespace warpline::dispatch
