#include "server/worker/executors/library_calls.h"

#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/worker/testing/fake_context.h"

namespace warpline::worker {
namespace {

constexpr device::StreamId kStream{7};
constexpr cmd::LibraryCall kSgemm = {7, 1, 0};

class NoPayer : public device::CodePayer {
 public:
  CudaResult TakeCode(uint64_t) override { return CudaResult::kSuccess; }
  void GiveCode(uint64_t) override {}
};

// The tail of a product of square matrices, which takes 2 * n^3 microseconds of the fake device.
std::string Sgemm(uint64_t n, uint64_t columns) {
  const uint64_t values[] = {0, 0, n, columns, n, 1, 0, 0x10000, n, 0x20000, n, 1, 0, 0x30000, n};
  return {reinterpret_cast<const char*>(values), sizeof(values)};
}

class LibraryCallIssueTest : public ::testing::Test {
 protected:
  LibraryCallIssue::Step Issue(const cmd::LibraryCall& command, const std::string& tail) {
    return issue_.Issue(command, tail, &context_, kStream, &payer_,
                        [this](const LibraryCallIssue::Work& work) { watched_.push_back(work); });
  }
  // The parts under way are complete.
  void Complete() {
    for (const LibraryCallIssue::Work& work : watched_) {
      budget_.Give(work.microseconds);
      launches_ -= work.launches;
    }
    watched_.clear();
  }
  // The bytes of C in each of the calls that the device got.
  std::vector<std::string> Calls() { return context_.log(); }

  FakeContext context_;
  NoPayer payer_;
  LibraryBudget budget_;
  uint64_t launches_ = 0;
  LibraryCallIssue issue_{&budget_, &launches_};
  std::vector<LibraryCallIssue::Work> watched_;
};

TEST_F(LibraryCallIssueTest, ShortCallsAreIssuedWholeAndWatchedTogether) {
  EXPECT_EQ(Issue(kSgemm, Sgemm(2, 2)), LibraryCallIssue::Step::kDone);
  EXPECT_EQ(issue_.result(), CudaResult::kSuccess);
  EXPECT_EQ(Calls(), (std::vector<std::string>{"library@7 1 16 16 16w"}));
  EXPECT_TRUE(watched_.empty());
  for (int i = 0; i < 5; ++i) Issue(kSgemm, Sgemm(2, 2));
  EXPECT_TRUE(watched_.empty());
  Issue(kSgemm, Sgemm(2, 2));  // 7 * 2 * 2^3 > 100 us.
  ASSERT_EQ(watched_.size(), 1u);
  EXPECT_EQ(watched_[0].microseconds, 112u);
  EXPECT_EQ(watched_[0].launches, 7u);
}

TEST_F(LibraryCallIssueTest, TheOperationsOfAStreamAreBounded) {
  // Each takes 2 us, and one operation.
  uint64_t issued = 0;
  while (Issue(kSgemm, Sgemm(1, 1)) == LibraryCallIssue::Step::kDone) ++issued;
  EXPECT_EQ(issued, LibraryCallIssue::kMostLaunches);
  EXPECT_EQ(launches_, LibraryCallIssue::kMostLaunches);
  EXPECT_EQ(Issue(kSgemm, Sgemm(1, 1)), LibraryCallIssue::Step::kBlocked);
  Complete();
  EXPECT_EQ(launches_, 0u);
  EXPECT_EQ(Issue(kSgemm, Sgemm(1, 1)), LibraryCallIssue::Step::kDone);
}

TEST_F(LibraryCallIssueTest, ALongCallIsMadeInPartsThatTakeLessEach) {
  // 2 * 20 * 20 * 200 = 160,000 us: parts of 50 columns. A column has 80 bytes, so each part is as
  // aligned as the first one.
  EXPECT_EQ(Issue(kSgemm, Sgemm(20, 200)), LibraryCallIssue::Step::kDone);
  EXPECT_EQ(issue_.result(), CudaResult::kSuccess);
  EXPECT_EQ(Calls(), std::vector<std::string>(4, "library@7 1 1600 4000 4000w"));
  EXPECT_EQ(watched_.size(), 4u);
  EXPECT_EQ(watched_[0].microseconds, 2u * 20 * 20 * 50);
}

TEST_F(LibraryCallIssueTest, PartsAreWholeGroupsOfColumnsThatAreNotAligned) {
  // 2 * 21 * 21 * 200 = 176,400 us: parts of 48 columns, and one of 8.
  EXPECT_EQ(Issue(kSgemm, Sgemm(21, 200)), LibraryCallIssue::Step::kDone);
  EXPECT_EQ(issue_.result(), CudaResult::kSuccess);
  std::vector<std::string> calls(4, "library@7 1 1764 4032 4032w");
  calls.push_back("library@7 1 1764 672 672w");
  EXPECT_EQ(Calls(), calls);
}

TEST_F(LibraryCallIssueTest, FewLargeProductsOfHalvesAreMadeOneByOne) {
  // cublasHgemmBatched of 3 products, 31,250 us each.
  const uint64_t values[] = {0,  0,       25, 25, 25, 1,       0,  0x10000,
                             25, 0x20000, 25, 1,  0,  0x30000, 25, 3};
  EXPECT_EQ(Issue({7, 77, 0}, {reinterpret_cast<const char*>(values), sizeof(values)}),
            LibraryCallIssue::Step::kDone);
  EXPECT_EQ(issue_.result(), CudaResult::kSuccess);
  EXPECT_EQ(Calls(),
            std::vector<std::string>(3, "library@7 77 8 8 8 1*1250@16 1*1250@16 1*1250w@16"));
}

TEST_F(LibraryCallIssueTest, WhatIsUnderWayIsBounded) {
  // 2 * 20 * 20 * 2000 = 1,600,000 us.
  const std::string tail = Sgemm(20, 2000);
  EXPECT_EQ(Issue(kSgemm, tail), LibraryCallIssue::Step::kBlocked);
  const size_t first = Calls().size();
  EXPECT_EQ(first, LibraryBudget::kMostUnderWay / (2 * 20 * 20 * 60));  // Parts of 60 columns.
  EXPECT_EQ(Issue(kSgemm, tail), LibraryCallIssue::Step::kBlocked);
  EXPECT_EQ(Calls().size(), first);
  Complete();
  EXPECT_EQ(Issue(kSgemm, tail), LibraryCallIssue::Step::kBlocked);
  EXPECT_EQ(Calls().size(), 2 * first);
  while (!watched_.empty()) {
    Complete();
    if (Issue(kSgemm, tail) == LibraryCallIssue::Step::kDone) break;
  }
  EXPECT_EQ(issue_.result(), CudaResult::kSuccess);
  EXPECT_EQ(Calls().size(), 34u);
  // The next one begins anew.
  Complete();
  EXPECT_EQ(Issue(kSgemm, Sgemm(2, 2)), LibraryCallIssue::Step::kDone);
  EXPECT_EQ(Calls().back(), "library@7 1 16 16 16w");
}

TEST_F(LibraryCallIssueTest, ALongCallThatCannotBeDividedIsRefused) {
  // One column of it takes too long.
  EXPECT_EQ(Issue(kSgemm, Sgemm(200, 1000)), LibraryCallIssue::Step::kDone);
  EXPECT_EQ(issue_.result(), CudaResult::kNotSupported);
  // cublasSgemv_v2, of 2 * 200 * 200 us.
  const uint64_t values[] = {0, 200, 200, 1, 0, 0x10000, 200, 0x20000, 1, 1, 0, 0x30000, 1};
  EXPECT_EQ(Issue({7, 11, 0}, {reinterpret_cast<const char*>(values), sizeof(values)}),
            LibraryCallIssue::Step::kDone);
  EXPECT_EQ(issue_.result(), CudaResult::kNotSupported);
  EXPECT_TRUE(Calls().empty());
}

// The fault of an address is known when the call is complete, and a wait behind it is to see it.
TEST_F(LibraryCallIssueTest, ACallWithAddressesIsWatchedAtOnce) {
  // cublasSgemmBatched of one product.
  const uint64_t values[] = {0, 0, 2, 2, 2, 1, 0, 0x10000, 2, 0x20000, 2, 1, 0, 0x30000, 2, 1};
  EXPECT_EQ(Issue({7, 78, 0}, {reinterpret_cast<const char*>(values), sizeof(values)}),
            LibraryCallIssue::Step::kDone);
  EXPECT_EQ(Calls(), (std::vector<std::string>{"library@7 78 8 8 8 1*16@4 1*16@4 1*16w@4"}));
  EXPECT_EQ(watched_.size(), 1u);
}

TEST_F(LibraryCallIssueTest, WhatIsNoCallIsRefused) {
  for (const auto& [command, tail] :
       std::vector<std::pair<cmd::LibraryCall, std::string>>{{{7, 0, 0}, Sgemm(2, 2)},
                                                             {{7, 9999, 0}, Sgemm(2, 2)},
                                                             {kSgemm, Sgemm(2, 2) + "x"},
                                                             {kSgemm, ""},
                                                             {kSgemm, std::string(4096, '\0')},
                                                             {{7, 1, 0x8000}, Sgemm(2, 2)}}) {
    EXPECT_EQ(Issue(command, tail), LibraryCallIssue::Step::kDone);
    EXPECT_NE(issue_.result(), CudaResult::kSuccess);
  }
  EXPECT_TRUE(Calls().empty());
}

}  // namespace
}  // namespace warpline::worker
