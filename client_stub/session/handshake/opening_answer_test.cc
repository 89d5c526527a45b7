#include "client_stub/session/handshake/opening_answer.h"

#include <thread>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

TEST(OpeningAnswerTest, TheFirstAnswerHolds) {
  OpeningAnswer answer;
  answer.Give(absl::NotFoundError("no such device"));
  answer.Give(absl::OkStatus());
  EXPECT_EQ(answer.Await(absl::ZeroDuration()).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(answer.End(absl::UnavailableError("gone")));
  EXPECT_FALSE(answer.lost());
}

TEST(OpeningAnswerTest, AnEndIsTheAnswerWhereThereWasNone) {
  OpeningAnswer lost;
  EXPECT_FALSE(lost.End(absl::UnavailableError("gone")));
  EXPECT_EQ(lost.Await(absl::ZeroDuration()).message(), "gone");
  EXPECT_TRUE(lost.lost());
  OpeningAnswer ended;
  EXPECT_FALSE(ended.End(absl::OkStatus()));
  EXPECT_EQ(ended.Await(absl::ZeroDuration()).code(), absl::StatusCode::kUnavailable);
  OpeningAnswer refused;
  EXPECT_FALSE(refused.End(absl::PermissionDeniedError("no")));
  EXPECT_FALSE(refused.lost());
}

TEST(OpeningAnswerTest, AnEndComesAfterASessionThatWasOpened) {
  OpeningAnswer answer;
  answer.Give(absl::OkStatus());
  EXPECT_TRUE(answer.End(absl::UnavailableError("gone")));
  EXPECT_TRUE(answer.Await(absl::ZeroDuration()).ok());
  EXPECT_FALSE(answer.lost());
}

TEST(OpeningAnswerTest, WhoWaitsGoesOnWithTheAnswer) {
  OpeningAnswer answer;
  std::thread server([&] { answer.Give(absl::OkStatus()); });
  EXPECT_TRUE(answer.Await(absl::Seconds(60)).ok());
  server.join();
}

TEST(OpeningAnswerTest, SilenceIsUnavailable) {
  OpeningAnswer answer;
  EXPECT_EQ(answer.Await(absl::ZeroDuration()).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(answer.lost());
}

}  // namespace
}  // namespace warpline::stub
