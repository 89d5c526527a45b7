#include "client_stub/session/memory/refusal_log.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

constexpr CudaResult kShort = CudaResult::kOutOfMemory;

TEST(RefusalLogTest, EachReasonHasOneLine) {
  RefusalLog log;
  const std::string line = log.LineFor(kShort, "quota of 100 bytes: 90 in use, 20 wanted");
  EXPECT_TRUE(absl::StrContains(line, "quota of 100 bytes: 90 in use, 20 wanted")) << line;
  EXPECT_TRUE(absl::StrContains(line, "CUDA_ERROR_OUT_OF_MEMORY")) << line;
  EXPECT_EQ(log.LineFor(kShort, "quota of 100 bytes: 99 in use, 4 wanted"), "");
  EXPECT_NE(log.LineFor(kShort, "the device is out of memory"), "");
  // The two reasons alternate.
  EXPECT_EQ(log.LineFor(kShort, "quota of 7 bytes: 0 in use, 1000 wanted"), "");
  EXPECT_EQ(log.LineFor(kShort, "the device is out of memory"), "");
}

TEST(RefusalLogTest, ErrorIsPartOfTheReason) {
  RefusalLog log;
  EXPECT_NE(log.LineFor(kShort, "no"), "");
  EXPECT_NE(log.LineFor(CudaResult::kNotPermitted, "no"), "");
}

TEST(RefusalLogTest, ServerWithoutAReasonIsShown) {
  RefusalLog log;
  EXPECT_TRUE(absl::StrContains(log.LineFor(kShort, ""), "no reason given"));
  EXPECT_EQ(log.LineFor(kShort, ""), "");
}

TEST(RefusalLogTest, HostileServerFillsNoLog) {
  RefusalLog log;
  int lines = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string why = std::string(static_cast<size_t>(i), 'x') + std::string(100000, '\xff');
    const std::string line = log.LineFor(kShort, why);
    EXPECT_LE(line.size(), RefusalLog::kMostText + 120);
    if (!line.empty()) ++lines;
  }
  EXPECT_EQ(lines, static_cast<int>(RefusalLog::kMostKinds));
}

}  // namespace
}  // namespace warpline::stub
