#include "client_stub/core/tier/tier_watch.h"

#include <string>

#include "common/log/log_capture.h"
#include "common/tier/folder_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

using testing::HasSubstr;

class TierWatchTest : public tier::FolderFixture {
 protected:
  tier::TierRecord Record() const { return tier::TierRecord(folder_ + "/cache"); }

  const std::string program_ = std::string(64, 'a');
};

TEST_F(TierWatchTest, WhatStandsInTheWayIsSaidAndKept) {
  TierWatch watch(Record(), program_);
  LogCapture log;
  static const int kInThisProgram = 0;
  watch.OnModule(CudaResult::kNoBinaryForGpu, &kInThisProgram, "kernel");
  EXPECT_THAT(log.Text(), HasSubstr("tier_watch_test has no PTX for the device"));
  EXPECT_THAT(log.Text(), HasSubstr("--tier=auto chooses isolated from now on"));
  EXPECT_THAT(Record().Find(program_), HasSubstr("has no PTX for the device"));
}

TEST_F(TierWatchTest, TheFirstObstacleCounts) {
  TierWatch watch(Record(), program_);
  LogCapture log;
  watch.OnModule(CudaResult::kNotSupported, nullptr, "first");
  watch.OnModule(CudaResult::kInvalidPtx, nullptr, "second");
  watch.OnMemoryRefused();
  EXPECT_EQ(Record().Find(program_), "first of a module is refused by the guard");
  EXPECT_EQ(log.Text().find("second"), std::string::npos);
  EXPECT_EQ(log.Text().find("memory"), std::string::npos);
}

TEST_F(TierWatchTest, OtherErrorsAreNotTheTiers) {
  TierWatch watch(Record(), program_);
  for (const CudaResult result : {CudaResult::kSuccess, CudaResult::kNotFound,
                                  CudaResult::kInvalidImage, CudaResult::kDeinitialized}) {
    watch.OnModule(result, nullptr, "kernel");
  }
  // A call that names nothing, such as one for the compiler's log.
  watch.OnModule(CudaResult::kNotSupported, nullptr, "");
  EXPECT_EQ(Record().Find(program_), "");
}

TEST_F(TierWatchTest, RefusedMemoryIsAnObstacle) {
  TierWatch watch(Record(), program_);
  LogCapture log;
  watch.OnMemoryRefused();
  EXPECT_THAT(Record().Find(program_), HasSubstr("memory"));
}

TEST_F(TierWatchTest, WithoutARecordTheAdviceIsToNameTheTier) {
  for (const bool has_record : {false, true}) {
    LogCapture log;
    TierWatch named;
    TierWatch unkept(tier::TierRecord(""), program_);
    (has_record ? unkept : named).OnModule(CudaResult::kInvalidPtx, nullptr, "");
    EXPECT_THAT(log.Text(), HasSubstr("a module is refused by the guard; run it with "
                                      "--tier=isolated"));
  }
}

}  // namespace
}  // namespace warpline::stub
