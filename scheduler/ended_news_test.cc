#include "scheduler/ended_news.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/report_limits.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::ReportReply;

std::vector<LeaseRecord> Ended(int count, size_t reason_bytes) {
  std::vector<LeaseRecord> ended;
  for (int i = 0; i < count; ++i) {
    LeaseRecord lease;
    lease.id = absl::StrCat("lease", count - i);
    lease.reason.text = std::string(reason_bytes, 'r');
    ended.push_back(std::move(lease));
  }
  return ended;
}

ReportReply Answer(EndedNews* news, bool heard, const std::vector<LeaseRecord>& ended) {
  ReportReply reply;
  ReportAnswer answer(&reply);
  news->NextAnswer(heard);
  if (news->telling()) news->Tell(ended, &answer);
  return reply;
}

TEST(EndedNewsTest, AllAreToldOnce) {
  EndedNews news;
  const auto ended = Ended(3, 10);
  EXPECT_EQ(Answer(&news, false, ended).ended_size(), 3);
  EXPECT_TRUE(news.WasTold("lease1"));
  EXPECT_FALSE(news.WasTold("lease4"));
  EXPECT_EQ(Answer(&news, true, ended).ended_size(), 0);
  news.TellAll();
  EXPECT_EQ(Answer(&news, true, ended).ended_size(), 3);
  EXPECT_EQ(Answer(&news, true, ended).ended_size(), 0);
}

TEST(EndedNewsTest, AnAnswerThatWasNotHeardIsToldAgain) {
  EndedNews news;
  const auto ended = Ended(3, 10);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Answer(&news, false, ended).ended_size(), 3);
}

TEST(EndedNewsTest, WhatHasNoRoomFollows) {
  EndedNews news;
  const auto ended = Ended(20000, 200);
  std::set<std::string> told;
  int answers = 0;
  for (bool heard = false; !heard || news.telling(); heard = true) {
    const ReportReply reply = Answer(&news, heard, ended);
    EXPECT_LE(reply.ByteSizeLong(), kMostReportBytes);
    for (const auto& one : reply.ended()) EXPECT_TRUE(told.insert(one.lease()).second);
    ++answers;
    ASSERT_LT(answers, 100);
  }
  EXPECT_EQ(told.size(), 20000u);
  EXPECT_GT(answers, 3);
  EXPECT_TRUE(news.WasTold("lease1"));
  EXPECT_TRUE(news.WasTold("lease20000"));
}

TEST(EndedNewsTest, WhatIsAskedForWhileSomeFollowIsToldAfterThem) {
  EndedNews news;
  const auto ended = Ended(10000, 200);
  Answer(&news, false, ended);
  ASSERT_TRUE(news.telling());
  // Each time again, as when leases end all the time: the last ones are told all the same.
  int answers = 1;
  while (!news.WasTold("lease9999")) {
    news.TellAll();
    Answer(&news, true, ended);
    ASSERT_LT(++answers, 10);
  }
  // And all once more.
  while (news.telling()) Answer(&news, true, ended);
  EXPECT_GT(Answer(&news, true, ended).ended_size(), 0);
}

TEST(ReportAnswerTest, HasABoundForOrders) {
  ReportReply reply;
  ReportAnswer answer(&reply);
  warpline_internal::MoveOrder order;
  order.set_lease("lease");
  order.set_ticket(std::string(1000, 't'));
  while (answer.AddMove(order)) ASSERT_LT(reply.moves_size(), 2000);
  EXPECT_GT(reply.moves_size(), 900);
  EXPECT_LE(reply.ByteSizeLong(), kMostReportBytes);
}

TEST(ReportAnswerTest, HasABoundForAllThatItTells) {
  ReportReply reply;
  reply.add_keys()->set_key(std::string(1000, 'k'));
  ReportAnswer answer(&reply);
  int added = 0;
  const EndReason reason = {std::string(500, 'r'), EndCause::kEpochEnds};
  while (answer.AddEnded(absl::StrCat(added), reason) &&
         answer.AddEnding(absl::StrCat(added), reason, ~0u)) {
    ++added;
  }
  EXPECT_GT(added, 900);
  EXPECT_LE(reply.ByteSizeLong(), kMostReportBytes);
  EXPECT_TRUE(answer.Tells("0"));
  EXPECT_FALSE(answer.Tells("x"));
}

}  // namespace
}  // namespace warpline::scheduler
