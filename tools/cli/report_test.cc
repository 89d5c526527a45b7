#include "tools/cli/report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

warpline_internal::StatReply Example() {
  warpline_internal::StatReply reply;
  reply.set_server("test");
  auto* device = reply.add_devices();
  device->set_name("Fake device");
  device->set_granted_bytes(3ull << 30);
  auto* session = reply.add_sessions();
  session->set_id(7);
  session->set_program("evil\x1b[2J and \xc2\x9b\x32J");
  session->set_commands(10000);
  session->set_peer("ipv4:127.0.0.1:5 cn=alice");
  session->set_transport("shm");
  return reply;
}

TEST(ReportTest, StatShowsDevicesAndSessions) {
  const std::string report = StatReport(Example());
  EXPECT_THAT(report, HasSubstr("Fake device"));
  EXPECT_THAT(report, HasSubstr("3.0 GiB granted"));
  EXPECT_THAT(report, HasSubstr("10000"));
}

TEST(ReportTest, TheTransportIsShown) {
  EXPECT_THAT(StatReport(Example()), HasSubstr("transport        shm\n"));
  EXPECT_THAT(PsReport(Example()), HasSubstr("TRANSPORT"));
}

TEST(ReportTest, TheTierIsShownWhereTheServerTellsIt) {
  auto reply = Example();
  EXPECT_THAT(PsReport(reply), Not(HasSubstr("TIER")));
  reply.mutable_sessions(0)->set_tier("guarded");
  EXPECT_THAT(PsReport(reply), HasSubstr("TIER"));
  EXPECT_THAT(PsReport(reply), HasSubstr("guarded"));
}

TEST(ReportTest, StatShowsHostMemoryWhereTheServerTellsIt) {
  auto reply = Example();
  EXPECT_THAT(StatReport(reply), Not(HasSubstr("host_memory")));
  reply.set_host_memory_bytes(3ull << 20);
  reply.set_host_memory_limit_bytes(8ull << 30);
  EXPECT_THAT(StatReport(reply),
              HasSubstr("host_memory      3.0 MiB shared with clients, of 8.0 GiB"));
  EXPECT_THAT(StatReport(reply), Not(HasSubstr("swap")));
  reply.set_swap_bytes(5ull << 30);
  reply.set_swap_limit_bytes(64ull << 30);
  EXPECT_THAT(StatReport(reply), HasSubstr("swap             5.0 GiB moved from devices, of 64.0"));
}

TEST(ReportTest, StatShowsWhateverTheServerCounts) {
  auto reply = Example();
  auto* usage = reply.mutable_sessions(0)->add_usage();
  usage->set_name("handles");
  usage->set_value(12);
  usage = reply.mutable_sessions(0)->add_usage();
  usage->set_name("news\x1b[2J");
  usage->set_value(3ull << 20);
  usage->set_bytes(true);
  EXPECT_THAT(StatReport(reply), HasSubstr("handles          12\n"));
  EXPECT_THAT(StatReport(reply), HasSubstr("3.0 MiB\n"));
  EXPECT_THAT(StatReport(reply), Not(HasSubstr("\x1b")));
}

TEST(ReportTest, StatSaysWhyMemoryWasRefused) {
  auto reply = Example();
  EXPECT_THAT(StatReport(reply), HasSubstr("memory_refused   0\n"));
  reply.mutable_sessions(0)->set_memory_refused(12);
  reply.mutable_sessions(0)->set_memory_refusal("quota of 5 bytes\x1b[2J");
  EXPECT_THAT(StatReport(reply), HasSubstr("memory_refused   12, last: quota of 5 bytes"));
  EXPECT_THAT(StatReport(reply), Not(HasSubstr("\x1b")));
}

TEST(ReportTest, NamesFromTenantsCannotControlTheTerminal) {
  EXPECT_THAT(StatReport(Example()), Not(HasSubstr("\x1b")));
  EXPECT_THAT(PsReport(Example()), Not(HasSubstr("\x1b")));
  EXPECT_THAT(PsReport(Example()), Not(HasSubstr("\x9b")));
  EXPECT_THAT(PsReport(Example()), HasSubstr("evil"));
}

TEST(ReportTest, SessionsAreShownWithTheirPeers) {
  EXPECT_THAT(StatReport(Example()), HasSubstr("cn=alice"));
  EXPECT_THAT(PsReport(Example()), HasSubstr("cn=alice"));
}

TEST(ReportTest, PsSaysHowOftenAndWhyWorkersChanged) {
  auto reply = Example();
  reply.mutable_sessions(0)->set_restarts(31);
  reply.mutable_sessions(0)->set_reason("worker died: signal 9\x1b");
  EXPECT_THAT(PsReport(reply), HasSubstr(" 31 "));
  EXPECT_THAT(PsReport(reply), HasSubstr("worker died: signal 9"));
  EXPECT_THAT(PsReport(reply), Not(HasSubstr("\x1b")));
}

TEST(ReportTest, PsHasNoColumnsForWhatThereIsNot) {
  EXPECT_THAT(PsReport(Example()), Not(HasSubstr("TENANT")));
  EXPECT_THAT(PsReport(Example()), Not(HasSubstr("RESTARTS")));
  auto reply = Example();
  reply.mutable_sessions(0)->set_tenant("vision");
  reply.mutable_sessions(0)->set_age_seconds(3 * 3600 + 125);
  EXPECT_THAT(PsReport(reply), HasSubstr("vision"));
  EXPECT_THAT(PsReport(reply), HasSubstr("3h02m"));
  EXPECT_EQ(PsReport(warpline_internal::StatReply()), "no sessions on \n");
}

TEST(ReportTest, SessionsAreShownWithAllTheirDevices) {
  auto reply = Example();
  reply.mutable_sessions(0)->set_gpu(2);
  reply.mutable_sessions(0)->add_more_gpus(0);
  EXPECT_THAT(PsReport(reply), HasSubstr(" 2,0 "));
  EXPECT_THAT(StatReport(reply), HasSubstr("gpu 2,0\n"));
  reply.mutable_sessions(0)->clear_more_gpus();
  reply.mutable_sessions(0)->set_gpu(-1);
  EXPECT_THAT(PsReport(reply), HasSubstr(" - "));
}

TEST(ReportTest, ServerThatIsNotThereIsUnavailable) {
  EXPECT_FALSE(AskServer("unix:/no/such/socket").ok());
}

}  // namespace
}  // namespace warpline::cli
