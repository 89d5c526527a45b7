#include "scheduler/placement/allocator.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "scheduler/placement/testing/pool_events.h"

namespace warpline::placement {
namespace {

using warpline_placement::GRANTED;
using warpline_placement::Notice;
using warpline_placement::REFUSED;
using warpline_placement::WAITING;

class AllocatorTest : public ::testing::Test {
 protected:
  void Start(AllocatorOptions options = {}) {
    options.order = Order::kPack;
    allocator_ = std::make_unique<Allocator>(options);
  }

  Decision Apply(Event event) {
    event.set_at_ns(now_);
    Decision decision = allocator_->Apply(event);
    for (const Notice& notice : decision.notices()) {
      if (notice.cancelled()) {
        told_.erase(notice.lease());
      } else {
        told_[notice.lease()] = notice.reason();
      }
    }
    for (const Notice& notice : decision.due()) due_.insert(notice.lease());
    for (const std::string& ticket : decision.placed()) placed_.insert(ticket);
    return decision;
  }

  Decision AskFor(const Ask& ask) {
    Event event;
    *event.mutable_ask() = ask;
    return Apply(event);
  }

  Decision Pass(absl::Duration time) {
    now_ += absl::ToInt64Nanoseconds(time);
    return Apply(TimePasses());
  }

  // Asks for all that wait again, so that nothing is dropped as silent.
  void PassAsking(absl::Duration time, const std::vector<Ask>& asks) {
    for (absl::Duration passed; passed < time; passed += absl::Seconds(10)) {
      for (const Ask& ask : asks) {
        if (placed_.count(ask.ticket()) == 0) (void)AskFor(ask);
      }
      Pass(absl::Seconds(10));
    }
  }

  std::unique_ptr<Allocator> allocator_;
  int64_t now_ = 1'800'000'000'000'000'000;
  std::map<std::string, std::string> told_;
  std::set<std::string> due_;
  std::set<std::string> placed_;
};

TEST_F(AllocatorTest, WhatFitsIsGrantedAndWhatDoesNotIsRefused) {
  Start();
  Apply(ServerOf("a", 2));
  const Decision first = AskFor(AskOf("l1", "t", 50));
  EXPECT_EQ(first.outcome(), GRANTED);
  EXPECT_EQ(first.place().server(), "a");
  EXPECT_EQ(first.place().memory_bytes(), 50 * kGiB);
  EXPECT_EQ(AskFor(AskOf("l2", "t", 80)).outcome(), GRANTED);
  const Decision third = AskFor(AskOf("l3", "t", 31));
  EXPECT_EQ(third.outcome(), REFUSED);
  EXPECT_TRUE(absl::StrContains(third.message(), "30720 MiB")) << third.message();
  Apply(ReleaseOf("l1"));
  EXPECT_EQ(AskFor(AskOf("l3", "t", 31)).outcome(), GRANTED);
}

TEST_F(AllocatorTest, WhoWaitsIsPlacedWhenThereIsRoomAndPicksItUp) {
  Start();
  Apply(ServerOf("a", 1));
  AskFor(AskOf("l1", "t", 80));
  const Decision waits = AskFor(AskOf("l2", "t", 40, "k2"));
  EXPECT_EQ(waits.outcome(), WAITING);
  EXPECT_EQ(waits.position(), 1u);
  EXPECT_GT(waits.ask_again_ns(), 0);
  EXPECT_EQ(AskFor(AskOf("l3", "t", 40, "k3")).position(), 2u);
  Apply(ReleaseOf("l1"));
  EXPECT_EQ(placed_, (std::set<std::string>{"k2", "k3"}));
  // It is theirs already.
  EXPECT_EQ(AskFor(AskOf("l4", "t", 1)).outcome(), REFUSED);
  EXPECT_EQ(AskFor(AskOf("l2b", "t", 40, "k2")).outcome(), GRANTED);
  ASSERT_NE(allocator_->pool().Find("l2b"), nullptr);
  EXPECT_EQ(allocator_->quotas().UsageOf("t").bytes, 80 * kGiB);
}

TEST_F(AllocatorTest, WhoDoesNotAskAgainIsDroppedAndSoIsWhatNobodyPicksUp) {
  Start({.silence = absl::Seconds(30)});
  Apply(ServerOf("a", 1));
  AskFor(AskOf("l1", "t", 80));
  AskFor(AskOf("l2", "t", 80, "k2"));
  AskFor(AskOf("l3", "t", 80, "k3"));
  Pass(absl::Seconds(29));
  AskFor(AskOf("l3", "t", 80, "k3"));
  Pass(absl::Seconds(1));
  EXPECT_EQ(allocator_->line().requests(), 1u);
  Apply(ReleaseOf("l1"));
  EXPECT_EQ(placed_, (std::set<std::string>{"k3"}));
  Pass(absl::Seconds(30));
  EXPECT_EQ(allocator_->quotas().UsageOf("t").bytes, 0u);
  EXPECT_EQ(AskFor(AskOf("l4", "t", 80)).outcome(), GRANTED);
}

TEST_F(AllocatorTest, WithdrawnRequestsGiveBackWhatWasPlacedForThem) {
  Start();
  Apply(ServerOf("a", 1));
  AskFor(AskOf("l1", "t", 80));
  AskFor(AskOf("l2", "t", 80, "k2"));
  Apply(ReleaseOf("l1"));
  Apply(WithdrawOf("other", "k2"));
  EXPECT_EQ(AskFor(AskOf("l3", "t", 1)).outcome(), REFUSED);
  Apply(WithdrawOf("t", "k2"));
  EXPECT_EQ(AskFor(AskOf("l3", "t", 1)).outcome(), GRANTED);
}

TEST_F(AllocatorTest, WhatCanNeverBeIsNotWaitedFor) {
  Start();
  // Nothing is up yet, as after a takeover: everybody waits.
  EXPECT_EQ(AskFor(AskOf("l0", "t", 500, "k0")).outcome(), WAITING);
  Apply(ServerOf("a", 2));
  EXPECT_EQ(AskFor(AskOf("l1", "t", 81, "k1")).outcome(), REFUSED);
  EXPECT_EQ(AskFor(AskOf("l1", "t", 80, "k1", 3)).outcome(), REFUSED);
  Ask named = AskOf("l1", "t", 1, "k1");
  named.add_named("GPU-nowhere");
  EXPECT_EQ(AskFor(named).code(), static_cast<uint32_t>(absl::StatusCode::kNotFound));
  Apply(TenantOf("t", "", 10));
  EXPECT_EQ(AskFor(AskOf("l1", "t", 11, "k1")).outcome(), REFUSED);
  EXPECT_EQ(AskFor(AskOf("l1", "t", 10, "k1")).outcome(), GRANTED);
  // A limit that others' leases fill is waited for.
  EXPECT_EQ(AskFor(AskOf("l2", "t", 10, "k2")).outcome(), WAITING);
  Apply(ReleaseOf("l1"));
  EXPECT_EQ(AskFor(AskOf("l2", "t", 10, "k2")).outcome(), GRANTED);
}

TEST_F(AllocatorTest, WaitingIsBounded) {
  Start({.max_waiting = 5, .max_waiting_of_tenant = 3});
  Apply(ServerOf("a", 1));
  AskFor(AskOf("l", "t", 80));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(AskFor(AskOf("x", "t", 80, absl::StrCat("k", i))).outcome(), WAITING);
  }
  EXPECT_EQ(AskFor(AskOf("x", "t", 80, "k3")).outcome(), REFUSED);
  EXPECT_EQ(AskFor(AskOf("x", "t", 80, "k2")).outcome(), WAITING);
  EXPECT_EQ(AskFor(AskOf("x", "u", 80, "k0")).outcome(), WAITING);
  EXPECT_EQ(AskFor(AskOf("x", "v", 80, "k0")).outcome(), WAITING);
  EXPECT_EQ(AskFor(AskOf("x", "w", 80, "k0")).outcome(), REFUSED);
}

TEST_F(AllocatorTest, TurnsGoByWeightBetweenTenants) {
  Start();
  Apply(ServerOf("a", 8));
  Apply(TenantOf("heavy", "", 0, 0, 3));
  Apply(TenantOf("light", "", 0, 0, 1));
  AskFor(AskOf("all", "x", 80, "", 8));
  for (int i = 0; i < 20; ++i) {
    AskFor(AskOf("", "light", 80, absl::StrCat("light", i)));
    AskFor(AskOf("", "heavy", 80, absl::StrCat("heavy", i)));
  }
  // The twentieth of the light one has them all before it, the first of the heavy one one.
  EXPECT_EQ(AskFor(AskOf("", "light", 80, "light19")).position(), 40u);
  EXPECT_EQ(AskFor(AskOf("", "light", 80, "light0")).position(), 4u);
  Apply(ReleaseOf("all"));
  int heavy = 0;
  for (const std::string& ticket : placed_) heavy += absl::StartsWith(ticket, "heavy") ? 1 : 0;
  EXPECT_EQ(placed_.size(), 8u);
  EXPECT_EQ(heavy, 6);
}

TEST_F(AllocatorTest, HigherPrioritiesGoFirstAndThenWhatCameFirst) {
  Start();
  Apply(ServerOf("a", 1));
  AskFor(AskOf("all", "x", 80));
  AskFor(AskOf("", "t", 80, "first"));
  AskFor(AskOf("", "t", 80, "second"));
  Ask urgent = AskOf("", "t", 80, "urgent");
  urgent.set_priority(5);
  EXPECT_EQ(AskFor(urgent).position(), 1u);
  Apply(ReleaseOf("all"));
  EXPECT_EQ(placed_, (std::set<std::string>{"urgent"}));
  AskFor(urgent);
  Apply(WithdrawOf("t", "nobody"));
  Apply(ReleaseOf(""));
  EXPECT_EQ(placed_, (std::set<std::string>{"urgent", "first"}));
}

TEST_F(AllocatorTest, SmallRequestsDoNotStarveALargeOne) {
  Start({.patience = absl::Seconds(60)});
  Apply(ServerOf("a", 4));
  Apply(ServerOf("b", 4));
  std::vector<std::string> running;
  for (int i = 0; i < 8; ++i) {
    running.push_back(absl::StrCat("small", i));
    EXPECT_EQ(AskFor(AskOf(running.back(), "s", 80)).outcome(), GRANTED);
  }
  const Ask large = AskOf("large", "l", 80, "large", 4);
  EXPECT_EQ(AskFor(large).outcome(), WAITING);
  // One small lease ends every ten seconds, and another one takes its place at once.
  int next = 8;
  for (int round = 0; round < 20 && placed_.count("large") == 0; ++round) {
    AskFor(large);
    const std::string ended = running[static_cast<size_t>(round) * 5 % 8];
    Apply(ReleaseOf(ended));
    const std::string id = absl::StrCat("small", next++);
    if (AskFor(AskOf(id, "s", 80)).outcome() == GRANTED) {
      running[static_cast<size_t>(round) * 5 % 8] = id;
    }
    Pass(absl::Seconds(10));
  }
  EXPECT_EQ(placed_.count("large"), 1u);
  const Decision granted = AskFor(large);
  EXPECT_EQ(granted.outcome(), GRANTED);
  EXPECT_EQ(granted.place().devices_size(), 4);
}

TEST_F(AllocatorTest, WhatEndsInTimeMayUseWhatIsSetAside) {
  Start({.patience = absl::Seconds(10), .silence = absl::Hours(1)});
  Apply(ServerOf("a", 2));
  Ask first = AskOf("first", "t", 80);
  first.set_lasts_ns(absl::ToInt64Nanoseconds(absl::Seconds(1000)));
  AskFor(first);
  AskFor(AskOf("large", "t", 80, "large", 2));
  Pass(absl::Seconds(20));
  EXPECT_EQ(allocator_->pool().held().size(), 2u);
  EXPECT_EQ(AskFor(AskOf("l1", "s", 80)).outcome(), REFUSED);
  Ask brief = AskOf("l2", "s", 80);
  brief.set_lasts_ns(absl::ToInt64Nanoseconds(absl::Seconds(981)));
  EXPECT_EQ(AskFor(brief).outcome(), REFUSED);
  brief.set_lasts_ns(absl::ToInt64Nanoseconds(absl::Seconds(980)));
  EXPECT_EQ(AskFor(brief).outcome(), GRANTED);
  Apply(ReleaseOf("first"));
  EXPECT_TRUE(placed_.empty());
  Apply(ReleaseOf("l2"));
  EXPECT_EQ(placed_.count("large"), 1u);
}

TEST_F(AllocatorTest, AGangIsPlacedAsAWholeOrNotAtAll) {
  Start();
  Apply(ServerOf("a", 8));
  Apply(ServerOf("b", 8));
  AskFor(AskOf("one", "x", 80));
  const auto member = [](int i) {
    Ask ask = AskOf(absl::StrCat("g", i), "t", 80, absl::StrCat("m", i), 8);
    ask.set_gang("training");
    ask.set_members(2);
    return ask;
  };
  const Decision first = AskFor(member(0));
  EXPECT_EQ(first.outcome(), WAITING);
  EXPECT_EQ(first.missing(), 1u);
  EXPECT_EQ(AskFor(member(1)).outcome(), WAITING);
  EXPECT_EQ(AskFor(member(1)).missing(), 0u);
  EXPECT_EQ(AskFor(member(2)).outcome(), REFUSED);
  EXPECT_TRUE(placed_.empty());
  // Nothing of it is placed while it waits as a whole.
  EXPECT_EQ(allocator_->pool().allocations().size(), 1u);
  Apply(ReleaseOf("one"));
  EXPECT_EQ(placed_, (std::set<std::string>{"m0", "m1"}));
  const std::string a = AskFor(member(0)).place().server();
  const std::string b = AskFor(member(1)).place().server();
  EXPECT_EQ((std::set<std::string>{a, b}), (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(allocator_->line().entries().size(), 0u);
}

TEST_F(AllocatorTest, AGangWhoseMemberDoesNotComeEndsAsAWhole) {
  Start({.silence = absl::Seconds(30)});
  Apply(ServerOf("a", 2));
  const auto member = [](int i) {
    Ask ask = AskOf(absl::StrCat("g", i), "t", 80, absl::StrCat("m", i));
    ask.set_gang("training");
    ask.set_members(2);
    return ask;
  };
  AskFor(member(0));
  EXPECT_EQ(AskFor(member(1)).outcome(), GRANTED);
  Pass(absl::Seconds(30));
  EXPECT_EQ(due_, (std::set<std::string>{"g1"}));
  EXPECT_TRUE(absl::StrContains(told_["g1"], "never came"));
  Apply(ReleaseOf("g1"));
  EXPECT_TRUE(allocator_->pool().allocations().empty());
  // A member that asks for something else is no member.
  AskFor(member(0));
  Ask other = member(1);
  other.mutable_shape()->set_memory_bytes(kGiB);
  EXPECT_EQ(AskFor(other).code(), static_cast<uint32_t>(absl::StatusCode::kInvalidArgument));
  Ask alone = member(1);
  alone.clear_ticket();
  EXPECT_EQ(AskFor(alone).code(), static_cast<uint32_t>(absl::StatusCode::kInvalidArgument));
}

TEST_F(AllocatorTest, HigherPriorityEndsLowerOnesWithNotice) {
  Start({.silence = absl::Hours(1), .preemption = true, .notice = absl::Seconds(60)});
  Apply(ServerOf("a", 2));
  for (int i = 0; i < 4; ++i) AskFor(AskOf(absl::StrCat("low", i), "low", 40));
  Ask high = AskOf("high", "high", 80, "k");
  high.set_priority(1);
  EXPECT_EQ(AskFor(high).outcome(), WAITING);
  Pass(absl::Seconds(1));
  // The two latest, and no more.
  EXPECT_EQ(told_.size(), 2u);
  EXPECT_EQ(told_.count("low2") + told_.count("low3"), 2u);
  EXPECT_TRUE(absl::StrContains(told_["low3"], "tenant high")) << told_["low3"];
  EXPECT_TRUE(due_.empty());
  Pass(absl::Seconds(59));
  EXPECT_TRUE(due_.empty());
  Pass(absl::Seconds(1));
  EXPECT_EQ(due_, (std::set<std::string>{"low2", "low3"}));
  Apply(ReleaseOf("low2"));
  // Nobody gets in between.
  EXPECT_EQ(AskFor(AskOf("l", "low", 40)).outcome(), REFUSED);
  EXPECT_TRUE(placed_.empty());
  Apply(ReleaseOf("low3"));
  EXPECT_EQ(AskFor(high).outcome(), GRANTED);
  EXPECT_EQ(told_.size(), 2u);
}

TEST_F(AllocatorTest, NoticesAreTakenBackWhenWhoNeededTheDeviceHasGone) {
  Start({.silence = absl::Hours(1), .preemption = true});
  Apply(ServerOf("a", 1));
  AskFor(AskOf("low", "low", 80));
  Ask high = AskOf("high", "high", 80, "k");
  AskFor(high);
  Pass(absl::Seconds(1));
  EXPECT_TRUE(told_.empty()) << "of equal priority";
  Apply(WithdrawOf("high", "k"));
  high.set_priority(1);
  AskFor(high);
  Pass(absl::Seconds(1));
  EXPECT_EQ(told_.count("low"), 1u);
  Apply(WithdrawOf("high", "k"));
  EXPECT_TRUE(told_.empty());
  Pass(absl::Hours(1));
  EXPECT_TRUE(due_.empty());
}

TEST_F(AllocatorTest, WhatIsReservedIsTakenBackFromWhoHasMore) {
  Start({.silence = absl::Hours(1), .preemption = true});
  Apply(ServerOf("a", 4));
  Apply(TenantOf("org", "", 0, 160));
  Apply(TenantOf("team", "org", 0));
  Apply(TenantOf("burst", "", 0, 80));
  for (int i = 0; i < 4; ++i) {
    Ask ask = AskOf(absl::StrCat("b", i), "burst", 80);
    ask.set_priority(9);
    EXPECT_EQ(AskFor(ask).outcome(), GRANTED);
  }
  // Both are within what org can count on, though burst has the higher priority; a third is not.
  AskFor(AskOf("t0", "team", 80, "k0"));
  AskFor(AskOf("t1", "team", 80, "k1"));
  AskFor(AskOf("t2", "team", 80, "k2"));
  Pass(absl::Seconds(1));
  EXPECT_EQ(told_.size(), 2u);
  EXPECT_TRUE(absl::StrContains(told_["b3"], "reserved")) << told_["b3"];
  Apply(ReleaseOf("b3"));
  Apply(ReleaseOf("b2"));
  EXPECT_EQ(placed_.size(), 2u);
  for (const std::string& ticket : placed_) {
    EXPECT_EQ(AskFor(AskOf(absl::StrCat("l", ticket), "team", 80, ticket)).outcome(), GRANTED);
  }
  told_.clear();
  Pass(absl::Seconds(1));
  EXPECT_TRUE(told_.empty());
}

TEST_F(AllocatorTest, CordonedServersGetNothingAndDrainedOnesLoseTheirLeases) {
  Start();
  Apply(ServerOf("a", 1));
  AskFor(AskOf("l1", "t", 40));
  Apply(CordonOf("a", true, 0));
  EXPECT_TRUE(absl::StrContains(AskFor(AskOf("l2", "t", 40)).message(), "is cordoned"));
  EXPECT_TRUE(told_.empty());
  // It reports all the same.
  Apply(ServerOf("a", 1));
  EXPECT_EQ(AskFor(AskOf("l2", "t", 40)).outcome(), REFUSED);
  Apply(CordonOf("a", true, now_ + absl::ToInt64Nanoseconds(absl::Minutes(10)), "new disks"));
  EXPECT_TRUE(absl::StrContains(told_["l1"], "new disks")) << told_["l1"];
  Pass(absl::Minutes(9));
  EXPECT_TRUE(due_.empty());
  Apply(CordonOf("a", false, 0));
  EXPECT_TRUE(told_.empty());
  Pass(absl::Minutes(2));
  EXPECT_TRUE(due_.empty());
  EXPECT_EQ(AskFor(AskOf("l2", "t", 40)).outcome(), GRANTED);
  Apply(CordonOf("a", true, now_ + 1));
  Pass(absl::Seconds(1));
  EXPECT_EQ(due_, (std::set<std::string>{"l1", "l2"}));
}

// A lease whose token says 0 would have all that its server gives.
TEST_F(AllocatorTest, AGangBeyondItsTenantsMemoryIsNotPlacedWithoutAny) {
  Start();
  Apply(ServerOf("a", 2));
  Apply(TenantOf("t", "", 20));
  const auto member = [](int i) {
    Ask ask = AskOf(absl::StrCat("g", i), "t", 0, absl::StrCat("m", i));
    ask.set_gang("training");
    ask.set_members(2);
    return ask;
  };
  for (int i = 0; i < 4; ++i) EXPECT_NE(AskFor(member(i % 2)).outcome(), GRANTED);
  Pass(absl::Seconds(1));
  EXPECT_TRUE(placed_.empty());
  EXPECT_TRUE(allocator_->pool().allocations().empty());
}

// What is picked up has been placed, and counted, as it was asked for first.
TEST_F(AllocatorTest, ATicketIsForWhatWasAskedForFirst) {
  Start({.silence = absl::Hours(1)});
  Apply(ServerOf("a", 1));
  AskFor(AskOf("l1", "t", 80));
  const Ask first = AskOf("l2", "t", 40, "k");
  EXPECT_EQ(AskFor(first).outcome(), WAITING);
  std::vector<Ask> others(6, first);
  others[0].mutable_shape()->set_memory_bytes(80 * kGiB);
  others[1].mutable_shape()->set_sm_percent(100);
  others[2].mutable_shape()->set_time_milli(900);
  others[3].mutable_shape()->set_weight(1000);
  others[4].set_sessions(64);
  others[5].set_slice("large");
  for (int i = 0; i < 2; ++i) {
    for (const Ask& other : others) {
      EXPECT_EQ(AskFor(other).code(), static_cast<uint32_t>(absl::StatusCode::kInvalidArgument));
    }
    Apply(ReleaseOf("l1"));  // It is placed now.
  }
  Ask again = first;
  again.set_lease("l3");
  EXPECT_EQ(AskFor(again).outcome(), GRANTED);
}

// It gets a quarter of a GPU, and does not count as nothing before that.
TEST_F(AllocatorTest, WhoNamesNoMemoryIsNotWithinASmallReserve) {
  Start({.silence = absl::Hours(1), .preemption = true});
  Apply(ServerOf("a", 4));
  Apply(TenantOf("small", "", 0, 1));
  Apply(TenantOf("owner", "", 0, 20));
  for (int i = 0; i < 4; ++i) AskFor(AskOf(absl::StrCat("l", i), "t", 80));
  AskFor(AskOf("s", "small", 0, "k", 4));
  Pass(absl::Seconds(1));
  EXPECT_TRUE(told_.empty());
  AskFor(AskOf("o", "owner", 0, "k"));
  Pass(absl::Seconds(1));
  EXPECT_EQ(told_.size(), 1u);
}

// What it wants is taken by a lease of its own, which nobody ends for it.
TEST_F(AllocatorTest, WhoCannotBeServedDoesNotKeepOthersFromWhatTheyReserved) {
  Start({.silence = absl::Hours(1), .preemption = true});
  Apply(ServerOf("a", 3));
  Apply(TenantOf("stuck", "", 0, 2000));
  Apply(TenantOf("owner", "", 0, 200));
  const auto named = [](Ask ask, const char* device) {
    ask.add_named(device);
    return ask;
  };
  EXPECT_EQ(AskFor(named(AskOf("own", "stuck", 1), "GPU-a0")).outcome(), GRANTED);
  EXPECT_EQ(AskFor(named(AskOf("had", "owner", 60), "GPU-a1")).outcome(), GRANTED);
  EXPECT_EQ(AskFor(named(AskOf("big", "t", 80), "GPU-a2")).outcome(), GRANTED);
  // The tenant that goes first, since it has least.
  for (int i = 0; i < 12; ++i) {
    const Ask never = AskOf(absl::StrCat("n", i), "stuck", 80, absl::StrCat("k", i));
    EXPECT_EQ(AskFor(named(never, "GPU-a0")).outcome(), WAITING);
  }
  AskFor(AskOf("o", "owner", 80, "k"));
  Pass(absl::Seconds(1));
  EXPECT_EQ(told_.count("big"), 1u);
}

TEST_F(AllocatorTest, ADrainIsNotForgottenOverAnEarlierNotice) {
  Start({.silence = absl::Hours(1), .preemption = true});
  Apply(ServerOf("a", 1));
  AskFor(AskOf("low", "low", 80));
  Ask high = AskOf("high", "high", 80, "k");
  high.set_priority(1);
  AskFor(high);
  Pass(absl::Seconds(1));
  EXPECT_TRUE(absl::StrContains(told_["low"], "tenant high"));
  Apply(CordonOf("a", true, now_ + absl::ToInt64Nanoseconds(absl::Minutes(10)), "new disks"));
  EXPECT_TRUE(absl::StrContains(told_["low"], "tenant high")) << "which is earlier";
  Apply(WithdrawOf("high", "k"));
  EXPECT_TRUE(absl::StrContains(told_["low"], "new disks")) << told_["low"];
  Pass(absl::Minutes(9));
  EXPECT_TRUE(due_.empty());
  Pass(absl::Minutes(2));
  EXPECT_EQ(due_, (std::set<std::string>{"low"}));
}

TEST_F(AllocatorTest, ReservedTimeIsAPartOfAGpuLikeMemory) {
  Start();
  Apply(ServerOf("a", 2));
  Ask ask = AskOf("l1", "t", 1, "", 2);
  ask.mutable_shape()->set_time_milli(900);
  EXPECT_EQ(AskFor(ask).outcome(), GRANTED);
  EXPECT_EQ(allocator_->quotas().UsageOf("t").milli_gpus, 1800u);
  Apply(ReleaseOf("l1"));
  EXPECT_EQ(allocator_->quotas().UsageOf("t").milli_gpus, 0u);
}

TEST_F(AllocatorTest, QuotasNest) {
  Start();
  Apply(ServerOf("a", 4));
  Apply(TenantOf("org", "", 100));
  Apply(TenantOf("team1", "org", 80));
  Apply(TenantOf("team2", "org", 0));
  EXPECT_EQ(AskFor(AskOf("l1", "team1", 60)).outcome(), GRANTED);
  const Decision refused = AskFor(AskOf("l2", "team2", 60));
  EXPECT_TRUE(absl::StrContains(refused.message(), "tenant org may lease")) << refused.message();
  // An unnamed size is what is left, at most.
  Ask quarter = AskOf("l2", "team1", 0);
  EXPECT_EQ(AskFor(quarter).place().memory_bytes(), 20 * kGiB);
  EXPECT_EQ(Apply(TenantOf("org", "team1", 0)).outcome(), REFUSED);
}

}  // namespace
}  // namespace warpline::placement
