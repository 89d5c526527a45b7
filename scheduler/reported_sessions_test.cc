#include "scheduler/reported_sessions.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "proto/report_limits.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::ServerReport;
using warpline_internal::SessionsReport;
using warpline_internal::SessionStat;

ServerReport Report(uint64_t number, int sessions, bool follow = false) {
  ServerReport report;
  report.set_instance(7);
  report.set_number(number);
  report.set_sessions_follow(follow);
  for (int i = 0; i < sessions; ++i) report.add_sessions()->set_id(number);
  return report;
}

SessionsReport More(uint64_t number, int sessions, bool last = true) {
  SessionsReport more;
  more.set_instance(7);
  more.set_report(number);
  more.set_last(last);
  for (int i = 0; i < sessions; ++i) more.add_sessions()->set_id(number);
  return more;
}

TEST(ReportedSessionsTest, AReportWithAllReplacesTheOneBefore) {
  ReportedSessions sessions;
  sessions.Begin(Report(1, 3));
  EXPECT_EQ(sessions.all().size(), 3);
  sessions.Begin(Report(2, 1));
  EXPECT_EQ(sessions.all().size(), 1);
}

TEST(ReportedSessionsTest, TheFormerOnesStayUntilAllHaveCome) {
  ReportedSessions sessions;
  sessions.Begin(Report(1, 3));
  sessions.Begin(Report(2, 2, /*follow=*/true));
  EXPECT_EQ(sessions.all().size(), 3);
  ASSERT_TRUE(sessions.Add(More(2, 2, /*last=*/false)).ok());
  EXPECT_EQ(sessions.all().size(), 3);
  ASSERT_TRUE(sessions.Add(More(2, 4)).ok());
  EXPECT_EQ(sessions.all().size(), 8);
  for (const SessionStat& session : sessions.all()) EXPECT_EQ(session.id(), 2u);
}

TEST(ReportedSessionsTest, WhatBelongsToAnotherReportIsRefused) {
  ReportedSessions sessions;
  EXPECT_TRUE(absl::IsFailedPrecondition(sessions.Add(More(0, 1))));
  sessions.Begin(Report(1, 1, /*follow=*/true));
  EXPECT_TRUE(absl::IsFailedPrecondition(sessions.Add(More(2, 1))));
  SessionsReport other = More(1, 1);
  other.set_instance(8);
  EXPECT_TRUE(absl::IsFailedPrecondition(sessions.Add(other)));
  EXPECT_TRUE(sessions.Add(More(1, 1)).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(sessions.Add(More(1, 1))));  // After the last.
  sessions.Begin(Report(2, 1, /*follow=*/true));
  sessions.Begin(Report(3, 1, /*follow=*/true));
  EXPECT_TRUE(absl::IsFailedPrecondition(sessions.Add(More(2, 1))));
  EXPECT_EQ(sessions.all().size(), 2);
}

TEST(ReportedSessionsTest, NeitherTooManyNorTooLargeOnesAreKept) {
  ReportedSessions sessions;
  sessions.Begin(Report(1, kMostReportedSessions, /*follow=*/true));
  EXPECT_TRUE(absl::IsResourceExhausted(sessions.Add(More(1, 1))));
  EXPECT_EQ(sessions.all().size(), 0);
  // Small in number, and large.
  sessions.Begin(Report(2, 1, /*follow=*/true));
  SessionsReport large = More(2, 1, /*last=*/false);
  large.mutable_sessions(0)->set_reason(std::string(1 << 20, 'x'));
  absl::Status status;
  int parts = 0;
  for (; parts < 1000 && status.ok(); ++parts) status = sessions.Add(large);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_LE(parts, 33);
}

TEST(CheckSessionsTest, EachTextHasABound) {
  const auto check = [](auto change) {
    ReportedSessions::Sessions sessions;
    change(sessions.Add());
    return CheckSessions(sessions).ok();
  };
  EXPECT_TRUE(check([](SessionStat* session) { session->set_program(std::string(256, 'x')); }));
  // By reflection, so that a field that is new has one, too.
  for (int i = 0; i < SessionStat::descriptor()->field_count(); ++i) {
    const auto* const field = SessionStat::descriptor()->field(i);
    if (field->type() != google::protobuf::FieldDescriptor::TYPE_STRING) continue;
    EXPECT_FALSE(check([field](SessionStat* session) {
      session->GetReflection()->SetString(session, field, std::string(1025, 'x'));
    })) << field->name();
  }
  EXPECT_FALSE(check([](SessionStat* session) {
    for (int i = 0; i < 65; ++i) session->add_usage();
  }));
  EXPECT_FALSE(
      check([](SessionStat* session) { session->add_usage()->set_name(std::string(300, 'x')); }));
  EXPECT_FALSE(check([](SessionStat* session) {
    for (int i = 0; i < 65; ++i) session->add_more_gpus(i);
  }));
  ReportedSessions::Sessions sessions;
  for (int i = 0; i <= kMostReportedSessions; ++i) sessions.Add();
  EXPECT_FALSE(CheckSessions(sessions).ok());
}

}  // namespace
}  // namespace warpline::scheduler
