#include "tools/cli/top.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using warpline_internal::StatReply;

StatReply Sample(uint64_t quiet, uint64_t busy) {
  StatReply reply;
  reply.set_server("pool");
  for (const auto& [program, commands] : {std::pair("quiet", quiet), std::pair("busy\x1b", busy)}) {
    auto* session = reply.add_sessions();
    session->set_id(1);
    session->set_server(program);
    session->set_program(program);
    session->set_commands(commands);
    session->set_command_bytes(commands * 1024);
    session->set_quota_bytes(4ull << 30);
    session->set_quota_used_bytes(1ull << 30);
  }
  return reply;
}

TEST(TopTest, BusiestSessionComesFirstWithItsRates) {
  const std::string report = TopReport(Sample(100, 1000), Sample(110, 5000), 2);
  EXPECT_THAT(report, HasSubstr("2000"));
  EXPECT_THAT(report, HasSubstr("2.0 MiB"));
  EXPECT_THAT(report, HasSubstr("3.0 GiB"));
  EXPECT_LT(report.find("busy"), report.find("quiet"));
  EXPECT_THAT(report, Not(HasSubstr("\x1b")));
}

TEST(TopTest, NewSessionsAndRestartedServersHaveNoOddRates) {
  EXPECT_THAT(TopReport(StatReply(), Sample(0, 3000), 1), HasSubstr("3000"));
  EXPECT_THAT(TopReport(Sample(9000, 9000), Sample(1, 1), 1), HasSubstr(" 0 "));
}

TEST(TopTest, ReportFitsIntoTheTerminal) {
  StatReply many;
  many.set_server("pool");
  for (int i = 0; i < 100; ++i) {
    auto* session = many.add_sessions();
    session->set_id(static_cast<uint64_t>(i) + 1);
    session->set_program(std::string(200, 'x'));
  }
  const std::string report = TopReport(many, many, 1, {.rows = 20, .columns = 60});
  EXPECT_EQ(std::count(report.begin(), report.end(), '\n'), 19);
  EXPECT_THAT(report, HasSubstr("more\n"));
  size_t longest = 0;
  for (const absl::string_view line : absl::StrSplit(report, '\n')) {
    longest = std::max(longest, line.size());
  }
  EXPECT_EQ(longest, 60u);
  EXPECT_THAT(TopReport(many, many, 1), Not(HasSubstr("more\n")));
}

}  // namespace
}  // namespace warpline::cli
