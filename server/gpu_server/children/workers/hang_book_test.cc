#include "server/gpu_server/children/workers/hang_book.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {
namespace {

using ::testing::HasSubstr;

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

TEST(HangBookTest, WhoseWorkHungWaitsTwiceAsLongEachTime) {
  const LoopScope on_loop(&control_loop);
  HangBook hangs(absl::Minutes(1));
  absl::Time now = kStart;
  for (const int minutes : {1, 2, 4, 8}) {
    EXPECT_TRUE(hangs.Check("vision", now).ok());
    hangs.OnHang("vision", now);
    const absl::Status status =
        hangs.Check("vision", now + absl::Minutes(minutes) - absl::Seconds(1));
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    now += absl::Minutes(minutes);
  }
  EXPECT_TRUE(hangs.Check("vision", now).ok());
  EXPECT_TRUE(hangs.Check("other", kStart).ok());
}

TEST(HangBookTest, TheRefusalSaysUntilWhen) {
  const LoopScope on_loop(&control_loop);
  HangBook hangs(absl::Minutes(1));
  hangs.OnHang("vision", kStart);
  EXPECT_THAT(std::string(hangs.Check("vision", kStart).message()),
              HasSubstr("until 2023-11-14 22:14:20 UTC"));
}

TEST(HangBookTest, ADayWithoutAnyIsForgiven) {
  const LoopScope on_loop(&control_loop);
  HangBook hangs(absl::Minutes(1));
  hangs.OnHang("vision", kStart);
  const absl::Time later = kStart + absl::Minutes(1) + HangBook::kMostPause;
  hangs.OnHang("vision", later);
  EXPECT_TRUE(hangs.Check("vision", later + absl::Minutes(1)).ok());
}

TEST(HangBookTest, APauseHasABound) {
  const LoopScope on_loop(&control_loop);
  HangBook hangs(absl::Hours(20));
  hangs.OnHang("vision", kStart);
  hangs.OnHang("vision", kStart);
  EXPECT_TRUE(hangs.Check("vision", kStart + HangBook::kMostPause).ok());
}

TEST(HangBookTest, OnlySoManyAreRemembered) {
  const LoopScope on_loop(&control_loop);
  HangBook hangs(absl::Minutes(1));
  for (size_t i = 0; i <= HangBook::kMostPayers; ++i) {
    hangs.OnHang(absl::StrCat(i), kStart + absl::Milliseconds(i));
  }
  EXPECT_TRUE(hangs.Check("0", kStart).ok());
  EXPECT_FALSE(hangs.Check("1", kStart).ok());
}

TEST(HangBookTest, WithoutAPauseNobodyWaits) {
  const LoopScope on_loop(&control_loop);
  HangBook hangs(absl::ZeroDuration());
  hangs.OnHang("vision", kStart);
  EXPECT_TRUE(hangs.Check("vision", kStart).ok());
}

}  // namespace
}  // namespace warpline::server
