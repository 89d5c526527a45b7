#include "server/gpu_server/admin/report_parts.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/report_limits.h"

namespace warpline::server {
namespace {

using warpline_internal::ServerReport;
using warpline_internal::SessionsReport;
using warpline_internal::SessionStat;

ServerReport Report() {
  ServerReport report;
  report.set_credential("secret");
  report.set_name("a");
  report.set_instance(7);
  report.set_number(3);
  return report;
}

std::vector<SessionsReport> Split(ServerReport* report, int sessions, size_t program_bytes) {
  ReportParts parts(report);
  for (int i = 0; i < sessions; ++i) {
    SessionStat session;
    session.set_id(static_cast<uint64_t>(i));
    session.set_program(std::string(program_bytes, 'p'));
    parts.Add(std::move(session));
  }
  return parts.Finish();
}

TEST(ReportPartsTest, FewSessionsAreInTheReport) {
  for (const int sessions : {0, 1, 1000}) {
    ServerReport report = Report();
    EXPECT_TRUE(Split(&report, sessions, 256).empty());
    EXPECT_EQ(report.sessions_size(), sessions);
    EXPECT_FALSE(report.sessions_follow());
  }
}

TEST(ReportPartsTest, EachPartHasRoomAndTogetherTheyAreAll) {
  ServerReport report = Report();
  // A report may have so many leases.
  for (int i = 0; i < kMostReportedSessions; ++i) {
    report.add_leases()->set_lease(std::string(32, 'l'));
    report.add_idle_leases(std::string(32, 'i'));
  }
  const auto more = Split(&report, kMostReportedSessions, 1500);
  EXPECT_TRUE(report.sessions_follow());
  EXPECT_LE(report.ByteSizeLong(), kMostReportBytes);
  ASSERT_GT(more.size(), 10u);
  std::vector<uint64_t> ids;
  for (const auto& session : report.sessions()) ids.push_back(session.id());
  for (size_t i = 0; i < more.size(); ++i) {
    EXPECT_LE(more[i].ByteSizeLong(), kMostReportBytes + 16);
    EXPECT_EQ(more[i].credential(), "secret");
    EXPECT_EQ(more[i].name(), "a");
    EXPECT_EQ(more[i].instance(), 7u);
    EXPECT_EQ(more[i].report(), 3u);
    EXPECT_EQ(more[i].last(), i + 1 == more.size());
    for (const auto& session : more[i].sessions()) ids.push_back(session.id());
  }
  ASSERT_EQ(ids.size(), static_cast<size_t>(kMostReportedSessions));
  for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(ids[i], i);
}

TEST(ReportPartsTest, NoMoreThanASchedulerTakesAreReported) {
  ServerReport report = Report();
  EXPECT_TRUE(Split(&report, kMostReportedSessions + 10, 10).empty());
  EXPECT_EQ(report.sessions_size(), kMostReportedSessions);
}

}  // namespace
}  // namespace warpline::server
