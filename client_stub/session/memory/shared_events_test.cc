#include "client_stub/session/memory/shared_events.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(SharedEventsTest, AnEventKeepsItsToken) {
  SharedEvents events;
  EXPECT_EQ(events.TokenOf(1), "");
  EXPECT_EQ(events.SetToken(1, "a"), "a");
  EXPECT_EQ(events.TokenOf(1), "a");
  // Another thread was first; the token that nobody got is taken back.
  EXPECT_EQ(events.SetToken(1, "b"), "a");
  EXPECT_THAT(events.TakeWithdrawn(10), ElementsAre("b"));
}

TEST(SharedEventsTest, TokensOfEventsThatAreGoneAreTakenBackOnce) {
  SharedEvents events;
  for (uint64_t event = 0; event < 3; ++event) events.SetToken(event, std::string(1, 'a' + event));
  for (uint64_t event = 0; event < 3; ++event) events.End(event);
  events.End(0);
  events.End(17);
  auto first = events.TakeWithdrawn(2);
  const auto second = events.TakeWithdrawn(2);
  EXPECT_EQ(first.size(), 2u);
  first.insert(first.end(), second.begin(), second.end());
  EXPECT_THAT(first, UnorderedElementsAre("a", "b", "c"));
  EXPECT_THAT(events.TakeWithdrawn(2), IsEmpty());
  EXPECT_EQ(events.TokenOf(0), "");
}

}  // namespace
}  // namespace warpline::stub
