#include "client_stub/core/registered/page_exchange.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "client_stub/core/managed/fault_handler.h"
#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t Map(uint64_t bytes, int how = MAP_PRIVATE) {
  void* const got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(got, MAP_FAILED);
  return reinterpret_cast<uint64_t>(got);
}

volatile uint64_t* Words(uint64_t at) { return reinterpret_cast<volatile uint64_t*>(at); }

bool Exchange(uint64_t at, uint64_t with, uint64_t bytes) {
  const SignalsBlocked blocked;
  const WritesHeld held(at, at + bytes);
  return ExchangePages(at, with, bytes);
}

TEST(PageExchangeTest, PutsAnotherMappingWithTheSameBytesInThePlace) {
  const uint64_t at = Map(8 * kPage);
  for (uint64_t i = 0; i < 8 * kPage / 8; ++i) Words(at)[i] = i;
  const uint64_t shared = Map(4 * kPage, MAP_SHARED);
  void* const other = mremap(reinterpret_cast<void*>(shared), 0, 4 * kPage, MREMAP_MAYMOVE);
  ASSERT_NE(other, MAP_FAILED);
  ASSERT_TRUE(Exchange(at + 2 * kPage, reinterpret_cast<uint64_t>(other), 4 * kPage));
  for (uint64_t i = 0; i < 8 * kPage / 8; ++i) ASSERT_EQ(Words(at)[i], i);
  EXPECT_EQ(Words(shared)[0], 2 * kPage / 8);
  Words(shared)[1] = 7;
  EXPECT_EQ(Words(at + 2 * kPage)[1], 7u);
  // And back.
  ASSERT_TRUE(Exchange(at + 2 * kPage, Map(4 * kPage), 4 * kPage));
  EXPECT_EQ(Words(at + 2 * kPage)[1], 7u);
  Words(shared)[1] = 8;
  EXPECT_EQ(Words(at + 2 * kPage)[1], 7u);
}

TEST(PageExchangeTest, LeavesThePagesWritableWhereTheKernelRefuses) {
  EXPECT_EXIT(
      {
        const uint64_t at = Map(kPage);
        const uint64_t with = Map(kPage, MAP_SHARED);
        Words(at)[0] = 5;
        // So many mappings that none can be moved.
        int protection = PROT_NONE;
        while (mmap(nullptr, kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
          protection ^= PROT_READ;
        }
        const bool refused = !Exchange(at, with, kPage);
        Words(at)[0] = Words(at)[0] + 1;
        _exit(refused && Words(at)[0] == 6 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_FALSE(Exchange(uint64_t{1} << 46, Map(kPage), kPage));
}

TEST(PageExchangeTest, NoWriteOfAnotherThreadIsLost) {
  constexpr uint64_t kBytes = 64 * kPage;
  const uint64_t at = Map(kBytes);
  std::atomic<bool> stop{false};
  std::vector<uint64_t> counts(2);
  std::vector<std::thread> writers;
  for (uint64_t i = 0; i < counts.size(); ++i) {
    writers.emplace_back([&, i] {
      volatile uint64_t* const word = Words(at + i * (kBytes - 8));
      while (!stop.load()) {
        *word = *word + 1;
        ++counts[i];
      }
    });
  }
  for (int round = 0; round < 500; ++round) ASSERT_TRUE(Exchange(at, Map(kBytes), kBytes));
  stop.store(true);
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(*Words(at), counts[0]);
  EXPECT_EQ(*Words(at + kBytes - 8), counts[1]);
}

TEST(PageExchangeTest, TakesTheStackInUse) {
  volatile uint64_t local[3 * kPage / 8];
  for (uint64_t i = 0; i < 3 * kPage / 8; ++i) local[i] = i;
  const uint64_t at = (reinterpret_cast<uint64_t>(&local[0]) + kPage - 1) / kPage * kPage;
  const uint64_t below = reinterpret_cast<uint64_t>(__builtin_frame_address(0)) / kPage * kPage;
  ASSERT_TRUE(Exchange(at, Map(2 * kPage), 2 * kPage));
  ASSERT_TRUE(Exchange(below, Map(kPage), kPage));
  for (uint64_t i = 0; i < 3 * kPage / 8; ++i) ASSERT_EQ(local[i], i);
}

void OnSignal(int) { _exit(3); }

TEST(PageExchangeTest, AFaultThatIsNoHeldWriteIsTheProgramsOwn) {
  EXPECT_EXIT(
      {
        struct sigaction own = {};
        own.sa_handler = OnSignal;
        sigaction(SIGSEGV, &own, nullptr);
        const uint64_t at = Map(kPage);
        Exchange(at, Map(kPage), kPage);
        mprotect(reinterpret_cast<void*>(at), kPage, PROT_READ);
        *Words(at) = 1;
      },
      testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace warpline::stub
