#include "client_stub/core/base/driver_log.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

using Messages = std::vector<std::pair<CUlogLevel, std::string>>;

void Note(void* data, CUlogLevel level, char* message, size_t length) {
  static_cast<Messages*>(data)->emplace_back(level, std::string(message, length));
}

TEST(DriverLogTest, WhatWasSaidSinceIsReadOnce) {
  DriverLog log;
  log.Add(LogLevel::kError, "before");
  uint32_t next = log.end();
  EXPECT_EQ(log.Read(&next), "");
  log.Add(LogLevel::kInfo, "nothing to worry about");
  log.Add(LogLevel::kWarning, "one");
  log.Add(LogLevel::kError, "two");
  EXPECT_EQ(log.Read(&next), "[W] one\n[E] two\n");
  EXPECT_EQ(log.Read(&next), "");
  uint32_t all = log.begin();
  EXPECT_EQ(log.Read(&all), "[E] before\n[W] one\n[E] two\n");
}

TEST(DriverLogTest, TheOldestMessagesAreMissingAndThatIsSaid) {
  DriverLog log;
  uint32_t next = log.end();
  for (size_t i = 0; i < DriverLog::kMostMessages + 2; ++i) {
    log.Add(LogLevel::kError, absl::StrCat("message ", i));
  }
  const std::string text = log.Read(&next);
  EXPECT_EQ(text.find("[W] older messages are missing\n[E] message 2\n"), 0u) << text;
  EXPECT_EQ(text.find("message 1\n"), std::string::npos);
}

TEST(DriverLogTest, ASmallBufferGetsTheLatest) {
  DriverLog log;
  log.Add(LogLevel::kError, std::string(100, 'a'));
  log.Add(LogLevel::kError, "last");
  uint32_t next = log.begin();
  EXPECT_EQ(log.Read(&next, 60), "[W] older messages are missing\n[E] last\n");
  next = log.begin();
  EXPECT_EQ(log.Read(&next, 8), "");
}

TEST(DriverLogTest, CallbacksAreCalledUntilTheyAreRemoved) {
  DriverLog log;
  Messages first, second;
  const uint64_t handle = log.AddCallback(Note, &first);
  log.AddCallback(Note, &second);
  log.Add(LogLevel::kError, "bad");
  log.Add(LogLevel::kInfo, "good");
  EXPECT_TRUE(log.RemoveCallback(handle));
  EXPECT_FALSE(log.RemoveCallback(handle));
  log.Add(LogLevel::kWarning, "odd");
  EXPECT_EQ(first, (Messages{{CU_LOG_LEVEL_ERROR, "bad"}}));
  EXPECT_EQ(second, (Messages{{CU_LOG_LEVEL_ERROR, "bad"}, {CU_LOG_LEVEL_WARNING, "odd"}}));
}

TEST(DriverLogTest, TheProcesssWarningsAreInIt) {
  uint32_t next = TheDriverLog().end();
  LogInfo("information");
  LogWarning("a warning");
  const std::string text = TheDriverLog().Read(&next);
  EXPECT_EQ(text.find("[W] "), 0u);
  EXPECT_NE(text.find("a warning\n"), std::string::npos);
  EXPECT_EQ(text.find("information"), std::string::npos);
}

}  // namespace
}  // namespace warpline::stub
