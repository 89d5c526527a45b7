#include "audit/record.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace warpline::audit {
namespace {

Record Opened() {
  return {.event = Event::kSessionOpened,
          .time = absl::FromUnixSeconds(1'700'000'000),
          .tenant = "a",
          .session = 7,
          .peer = "ipv4:127.0.0.1:1",
          .texts = {{"program", "python"}},
          .numbers = {{"client_pid", 5}}};
}

TEST(AuditRecordTest, ALineIsAFlatObjectThatNamesTheLineBefore) {
  EXPECT_EQ(FormatLine(Opened(), 12, NoHash()),
            absl::StrCat("{\"seq\":12,\"time\":\"2023-11-14T22:13:20.000000Z\",\"event\":\"session."
                         "opened\",\"tenant\":\"a\",\"session\":7,\"peer\":\"ipv4:127.0.0.1:1\","
                         "\"program\":\"python\",\"client_pid\":5,\"prev\":\"",
                         std::string(64, '0'), "\"}"));
}

TEST(AuditRecordTest, WhatIsWrittenIsReadBack) {
  const auto line = ParseLine(FormatLine(Opened(), 12, HashOf("before")));
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->seq, 12u);
  EXPECT_EQ(line->event, "session.opened");
  EXPECT_EQ(line->prev, HashOf("before"));
  EXPECT_EQ(line->Field("session"), "7");
  EXPECT_EQ(line->Field("program"), "python");
  EXPECT_EQ(line->Field("nothing"), "");
}

TEST(AuditRecordTest, TextsOfTenantsCannotLeaveTheirField) {
  const std::string hostile = "\"},\n{\"seq\":1,\x1b[31m\x7f\xc2\x9b\\";
  Record record = Opened();
  record.texts = {{"program", hostile}};
  const std::string text = FormatLine(record, 1, NoHash());
  for (const char c : text) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << text;
  EXPECT_FALSE(absl::StrContains(text, "\x7f"));
  EXPECT_FALSE(absl::StrContains(text, "\xc2\x9b"));
  const auto line = ParseLine(text);
  ASSERT_TRUE(line.ok()) << text;
  EXPECT_EQ(line->Field("session"), "7");
  EXPECT_EQ(line->Field("program"), hostile);
  record.texts = {{"program", "not UTF-8: \xff"}};
  EXPECT_EQ(ParseLine(FormatLine(record, 1, NoHash()))->Field("program"), "not UTF-8: \\xff");
}

TEST(AuditRecordTest, LinesAreBounded) {
  Record record = Opened();
  record.tenant = record.lease = record.peer = std::string(100'000, '\x01');
  record.texts.clear();
  for (int i = 0; i < 8; ++i) record.texts.emplace_back("reason", std::string(100'000, '\x01'));
  EXPECT_LT(FormatLine(record, 1, NoHash()).size(), kMaxLine);
}

TEST(AuditRecordTest, OtherLinesAreNoRecords) {
  const std::string good = FormatLine(Opened(), 12, NoHash());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ParseLine(good.substr(0, size)).ok()) << size;
  }
  for (const char* bad : {"", "{}", "[]", "{\"seq\":1}", "{\"seq\":\"1\",\"event\":\"a\"}",
                          "{\"seq\":99999999999999999999}", "{\"a\":1.5}", "{\"a\":{}}"}) {
    EXPECT_FALSE(ParseLine(bad).ok()) << bad;
  }
  EXPECT_FALSE(ParseLine(good + " ").ok());
}

TEST(AuditRecordTest, AnchorsAreReadAsTheyAreWritten) {
  const std::string hash = HashOf("a line");
  const auto anchor = ParseAnchor(FormatAnchor({12, hash}));
  ASSERT_TRUE(anchor.ok());
  EXPECT_EQ(anchor->seq, 12u);
  EXPECT_EQ(anchor->hash, hash);
  EXPECT_EQ(ParseAnchor(hash)->seq, 0u);
  EXPECT_FALSE(ParseAnchor("").ok());
  EXPECT_FALSE(ParseAnchor("12:").ok());
  EXPECT_FALSE(ParseAnchor("x:" + hash).ok());
  EXPECT_EQ(FormatAnchor({}), "");
}

TEST(AuditRecordTest, EveryEventHasItsRowAndIsDocumented) {
  std::ifstream file(
      absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/docs/audit.md"));
  std::stringstream text;
  text << file.rdbuf();
  for (size_t i = 0; i < static_cast<size_t>(Event::kEventCount); ++i) {
    EXPECT_EQ(static_cast<size_t>(kEvents[i].event), i);
    EXPECT_TRUE(absl::StrContains(text.str(), absl::StrCat("`", kEvents[i].name, "`")))
        << kEvents[i].name;
  }
}

}  // namespace
}  // namespace warpline::audit
