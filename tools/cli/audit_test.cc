#include "tools/cli/audit.h"

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "audit/audit_writer.h"
#include "gtest/gtest.h"
#include "transport/testing/temp_folder.h"

namespace warpline::cli {
namespace {

CommandLine With(std::vector<std::string> args) {
  args.insert(args.begin(), "audit");
  auto line = ParseCommandLine(args);
  EXPECT_TRUE(line.ok()) << line.status();
  return line.ok() ? *line : CommandLine();
}

audit::Line OpenedAt(const std::string& time) {
  return {.seq = 12,
          .time = time,
          .event = "session.opened",
          .prev = "",
          .fields = {{"tenant", "a"}, {"session", "7"}, {"program", "my \x1b[31mprogram"}}};
}

TEST(AuditTest, ALineSaysWhatHappenedWithoutControlCharacters) {
  const std::string text = AuditText(OpenedAt("2026-11-22T15:46:24.123456Z"));
  EXPECT_TRUE(absl::StartsWith(
      text, "2026-11-22T15:46:24.123456Z 12 session.opened tenant=a session=7 program=\"my "))
      << text;
  EXPECT_FALSE(absl::StrContains(text, "\x1b"));
}

TEST(AuditTest, FiltersLetThroughWhatTheySay) {
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);  // 2023-11-14T22:13:20Z
  const audit::Line line = OpenedAt("2023-11-14T22:00:00.000000Z");
  const auto lets = [&](std::vector<std::string> args) {
    const auto filter = FilterOf(With(std::move(args)), now);
    EXPECT_TRUE(filter.ok()) << filter.status();
    return filter.ok() && filter->Lets(line);
  };
  EXPECT_TRUE(lets({}));
  EXPECT_TRUE(lets({"--event=session", "--session=7", "--tenant=a", "--since=20m"}));
  EXPECT_TRUE(lets({"--event=session.opened", "--since=2023-11-14T21:59:59Z"}));
  EXPECT_TRUE(lets({"--since=2023-11-14"}));
  EXPECT_FALSE(lets({"--event=sess"}));
  EXPECT_FALSE(lets({"--session=8"}));
  EXPECT_FALSE(lets({"--tenant=b"}));
  EXPECT_FALSE(lets({"--since=10m"}));
  EXPECT_FALSE(FilterOf(With({"--since=yesterday"}), now).ok());
}

TEST(AuditTest, TheExitCodeSaysWhetherTheRecordIsWhole) {
  const warpline::testing::TempFolder temp;
  const std::string dir = temp.path() + "/audit";
  const std::string at = "--dir=" + dir;
  EXPECT_EQ(Audit(With({at})), kAuditUnreadable);
  EXPECT_EQ(Audit(With({at, "--verify"})), kAuditUnreadable);
  std::string anchor;
  {
    auto writer = audit::AuditWriter::Open({.dir = dir});
    ASSERT_TRUE(writer.ok());
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE((*writer)->Append({.event = audit::Event::kServerStarted}).ok());
    }
    anchor = "--anchor=" + audit::FormatAnchor((*writer)->head());
  }
  EXPECT_EQ(Audit(With({at})), kAuditWhole);
  EXPECT_EQ(Audit(With({at, "--verify", anchor})), kAuditWhole);
  EXPECT_EQ(Audit(With({at, "--anchor=x"})), 2);
  EXPECT_EQ(Audit(With({at, "--scheduler=unix:/nowhere"})), 2);
  EXPECT_EQ(Audit(With({at, "--server=a"})), 2);
  EXPECT_EQ(Audit(With({at, "--scheduler=unix:/nowhere", "--server=a", anchor})), 2);
  EXPECT_EQ(Audit(With({at, "--scheduler=unix:/nowhere", "--server=a"})), kAuditUnreadable);
  EXPECT_EQ(Audit(With({at, "--verify", "--follow"})), 2);
  EXPECT_EQ(Audit(With({at, "--anchor=5:" + audit::NoHash()})), kAuditBroken);
  std::ofstream(dir + "/audit-00000001.jsonl", std::ios::app) << "{}\n";
  EXPECT_EQ(Audit(With({at})), kAuditBroken);
  EXPECT_EQ(Audit(With({at, "--verify"})), kAuditBroken);
}

TEST(AuditTest, TheVerdictNamesTheFirstFault) {
  audit::Verdict verdict;
  verdict.files = 2;
  verdict.lines = 10;
  verdict.faults.push_back({1, 7, "it is not a record"});
  EXPECT_EQ(
      VerdictText("/d", verdict),
      "audit-00000001.jsonl:7: it is not a record\naudit: BROKEN: 10 lines in 2 files of /d\n");
}

}  // namespace
}  // namespace warpline::cli
