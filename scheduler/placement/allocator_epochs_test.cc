// Epochs on a virtual clock: who is lent what, who gets it back when, and what holds whatever
// comes.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/placement/allocator.h"
#include "scheduler/placement/testing/pool_events.h"

namespace warpline::placement {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using warpline_placement::GRANTED;

constexpr absl::Duration kEpoch = absl::Minutes(5);
constexpr absl::Duration kNotice = absl::Minutes(1);

// A pool whose leases end when they are due, and whose clients ask until they have their leases.
class EpochsTest : public ::testing::Test {
 protected:
  void Start(AllocatorOptions options = {.epoch = kEpoch}) {
    options.order = Order::kPack;
    options.notice = kNotice;
    allocator_ = std::make_unique<Allocator>(options);
  }

  Decision Apply(Event event) {
    event.set_at_ns(now_);
    Decision decision = allocator_->Apply(event);
    for (const auto& notice : decision.notices()) {
      if (notice.cancelled()) {
        told_.erase(notice.lease());
      } else {
        told_[notice.lease()] = notice.reason();
      }
    }
    for (const auto& due : decision.due()) due_.push_back(due.lease());
    return decision;
  }

  // Its lease is called as its ticket.
  bool Want(const std::string& name, const std::string& tenant, uint64_t gib, uint32_t gpus = 1) {
    asks_[name] = AskOf(name, tenant, gib, name, gpus);
    return AskAgain(name);
  }

  bool AskAgain(const std::string& name) {
    Event event;
    *event.mutable_ask() = asks_.at(name);
    if (Apply(event).outcome() != GRANTED) return false;
    granted_[name] = now_;
    asks_.erase(name);
    return true;
  }

  // In steps of ten seconds.
  void Pass(absl::Duration time) {
    for (absl::Duration passed; passed < time; passed += absl::Seconds(10)) {
      now_ += absl::ToInt64Nanoseconds(absl::Seconds(10));
      Apply(TimePasses());
      for (const std::string& lease : std::exchange(due_, {})) End(lease);
      std::vector<std::string> names;
      for (const auto& [name, ask] : asks_) names.push_back(name);
      for (const std::string& name : names) (void)AskAgain(name);
    }
  }

  void End(const std::string& lease) {
    if (granted_.erase(lease) == 0) return;
    told_.erase(lease);
    Apply(ReleaseOf(lease));
  }

  std::set<std::string> LeasesOf(const std::string& tenant) const {
    std::set<std::string> leases;
    for (const auto& [id, lease] : allocator_->pool().allocations()) {
      if (lease.tenant == tenant) leases.insert(id);
    }
    return leases;
  }

  std::unique_ptr<Allocator> allocator_;
  int64_t now_ = 1'800'000'000'000'000'000;
  std::map<std::string, std::string> told_;
  std::map<std::string, Ask> asks_;         // That wait.
  std::map<std::string, int64_t> granted_;  // When.
  std::vector<std::string> due_;
};

TEST_F(EpochsTest, UnusedReserveIsLentAndComesBackWithinAnEpochAndTheNotice) {
  Start();
  Apply(ServerOf("a", 4));
  Apply(TenantOf("owner", "", 0, 160));
  Apply(TenantOf("guest", "", 0));
  for (const char* name : {"g1", "g2", "g3", "g4"}) ASSERT_TRUE(Want(name, "guest", 80));
  Pass(kEpoch + absl::Seconds(20));
  // The owner's two are marked, and nobody is told anything while it does not want them.
  EXPECT_THAT(allocator_->lent(), UnorderedElementsAre("g3", "g4"));
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_FALSE(Want("o1", "owner", 80));
  EXPECT_FALSE(Want("o2", "owner", 80));
  const int64_t since = now_;
  Pass(kEpoch);
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_THAT(told_["g4"], HasSubstr("tenant owner needs its device and has reserved it"));
  Pass(kNotice);
  EXPECT_THAT(LeasesOf("owner"), UnorderedElementsAre("o1", "o2"));
  EXPECT_THAT(LeasesOf("guest"), UnorderedElementsAre("g1", "g2"));
  EXPECT_LE(granted_["o2"] - since, absl::ToInt64Nanoseconds(kEpoch + kNotice + absl::Seconds(20)));
  EXPECT_THAT(allocator_->lent(), IsEmpty());
}

TEST_F(EpochsTest, WithoutEpochsNothingIsTakenBack) {
  Start({});
  Apply(ServerOf("a", 2));
  ASSERT_TRUE(Want("a1", "a", 80));
  ASSERT_TRUE(Want("a2", "a", 80));
  EXPECT_FALSE(Want("b1", "b", 80));
  Pass(absl::Hours(2));
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_THAT(allocator_->lent(), IsEmpty());
}

TEST_F(EpochsTest, WhoHasLessThanItsShareGetsItAtTheEndOfAnEpoch) {
  Start();
  Apply(ServerOf("a", 4));
  for (const char* name : {"a1", "a2", "a3", "a4"}) ASSERT_TRUE(Want(name, "a", 80));
  Pass(kEpoch);
  EXPECT_FALSE(Want("b1", "b", 80));
  EXPECT_FALSE(Want("b2", "b", 80));
  EXPECT_FALSE(Want("b3", "b", 80));
  Pass(kEpoch + kNotice + absl::Seconds(20));
  // Half for each; the third is beyond the share of its tenant.
  EXPECT_THAT(LeasesOf("a"), UnorderedElementsAre("a1", "a2"));
  EXPECT_THAT(LeasesOf("b"), UnorderedElementsAre("b1", "b2"));
  Pass(absl::Hours(1));
  EXPECT_THAT(LeasesOf("a"), UnorderedElementsAre("a1", "a2"));
}

TEST_F(EpochsTest, WeightsAndLevelsCount) {
  Start();
  Apply(ServerOf("a", 8));
  Apply(TenantOf("x", "", 0, 0, 3));
  Apply(TenantOf("y", "", 0, 0, 1));
  Apply(TenantOf("y1", "y", 0));
  Apply(TenantOf("y2", "y", 0));
  Apply(TenantOf("x1", "x", 0));
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Want(absl::StrCat("y", i), i % 2 == 0 ? "y1" : "y2", 80));
  Pass(kEpoch);
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(Want(absl::StrCat("x", i), "x1", 80));
  Pass(2 * kEpoch);
  EXPECT_EQ(LeasesOf("x1").size(), 6u);
  EXPECT_EQ(LeasesOf("y1").size(), 1u);
  EXPECT_EQ(LeasesOf("y2").size(), 1u);
}

TEST_F(EpochsTest, ALeaseHasAnEpochBeforeItGoesToWhoHasReservedNothing) {
  Start();
  Apply(ServerOf("a", 2));
  Pass(kEpoch - absl::Seconds(30));
  ASSERT_TRUE(Want("a1", "a", 80));
  ASSERT_TRUE(Want("a2", "a", 80));
  EXPECT_FALSE(Want("b1", "b", 80));
  Pass(kEpoch - absl::Seconds(30));
  EXPECT_THAT(told_, IsEmpty());
  Pass(absl::Minutes(2));
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(EpochsTest, WhoIsFurthestBehindGoesFirst) {
  Start();
  Apply(ServerOf("a", 3));
  for (const char* name : {"a1", "a2", "a3"}) ASSERT_TRUE(Want(name, "a", 80));
  Pass(kEpoch);
  // `late` has waited for an epoch less, and of equal shares one lease can go at first.
  EXPECT_FALSE(Want("w1", "waits", 80, 1));
  Pass(kEpoch + kNotice + absl::Seconds(20));
  EXPECT_THAT(LeasesOf("waits"), UnorderedElementsAre("w1"));
  EXPECT_FALSE(Want("l1", "late", 80, 1));
  Pass(kEpoch + kNotice + absl::Seconds(20));
  EXPECT_THAT(LeasesOf("late"), UnorderedElementsAre("l1"));
  EXPECT_EQ(LeasesOf("a").size(), 1u);
}

TEST_F(EpochsTest, WhoseShareIsLessThanOneRequestGetsATurn) {
  Start();
  Apply(ServerOf("a", 1));
  std::map<std::string, int> turns;
  for (int i = 0; i < 3; ++i) (void)Want(absl::StrCat("t", i, ".0"), absl::StrCat("t", i), 80);
  // All want the GPU all the time, and whoever has to go asks again.
  for (int i = 1; i <= 60; ++i) {
    Pass(kEpoch);
    for (int t = 0; t < 3; ++t) {
      const std::string tenant = absl::StrCat("t", t);
      turns[tenant] += static_cast<int>(LeasesOf(tenant).size());
      const bool waits = std::any_of(asks_.begin(), asks_.end(), [&](const auto& ask) {
        return ask.second.tenant() == tenant;
      });
      if (!waits && LeasesOf(tenant).empty()) (void)Want(absl::StrCat(tenant, ".", i), tenant, 80);
    }
  }
  for (const auto& [tenant, epochs] : turns) {
    EXPECT_GT(epochs, 12) << tenant;
    EXPECT_LT(epochs, 28) << tenant;
  }
}

TEST_F(EpochsTest, NoticesAreTakenBackWhenWhoWaitedHasGone) {
  Start();
  Apply(ServerOf("a", 2));
  ASSERT_TRUE(Want("a1", "a", 80));
  ASSERT_TRUE(Want("a2", "a", 80));
  Pass(kEpoch);
  EXPECT_FALSE(Want("b1", "b", 80));
  Pass(absl::Seconds(30));
  EXPECT_EQ(told_.size(), 1u);
  asks_.erase("b1");
  Apply(WithdrawOf("b", "b1"));
  EXPECT_THAT(told_, IsEmpty());
  Pass(kEpoch);
  EXPECT_EQ(LeasesOf("a").size(), 2u);
}

TEST_F(EpochsTest, QuotasHoldForWhoGetsWhatIsTakenBack) {
  Start();
  Apply(ServerOf("a", 4));
  Apply(TenantOf("org", "", 80));
  Apply(TenantOf("team", "org", 0));
  for (const char* name : {"a1", "a2", "a3", "a4"}) ASSERT_TRUE(Want(name, "a", 80));
  Pass(kEpoch);
  EXPECT_FALSE(Want("t1", "team", 80));
  EXPECT_FALSE(Want("t2", "team", 80));
  Pass(3 * kEpoch);
  EXPECT_EQ(LeasesOf("team").size(), 1u);
  EXPECT_EQ(LeasesOf("a").size(), 3u);
}

// Whatever comes: never over capacity, nobody's reserve is taken, an owner has what it reserved
// back within an epoch and the notice, and everybody who wants no more than its share gets a turn.
TEST_F(EpochsTest, InvariantsHoldWhateverComes) {
  int taken = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Start();
    asks_.clear();
    granted_.clear();
    told_.clear();
    std::mt19937_64 random(seed);
    constexpr int kServers = 4;
    for (int s = 0; s < kServers; ++s) Apply(ServerOf(absl::StrCat("s", s), 8));
    // 32 GPUs: two tenants have 8 reserved, and two nothing.
    Apply(TenantOf("org", "", 0, 0, 2));
    Apply(TenantOf("r1", "org", 0, 8 * 80));
    Apply(TenantOf("r2", "", 0, 8 * 80));
    Apply(TenantOf("b1", "org", 0));
    Apply(TenantOf("b2", "", 16 * 80));
    const std::vector<std::string> tenants = {"r1", "r2", "b1", "b2"};
    // Since when an owner's request would be within its reserve, if those before it were granted.
    std::map<int, int64_t> owed;
    std::map<std::string, int64_t> starves;
    const int64_t bound = absl::ToInt64Nanoseconds(kEpoch + kNotice + absl::Seconds(30));
    int next = 0;
    for (int step = 0; step < 2000; ++step) {
      std::vector<std::string> running;
      for (const auto& [lease, since] : granted_) running.push_back(lease);
      // Phases in which one of them wants nothing.
      const std::string& tenant = tenants[(random() % 4 + (step / 250)) % 4];
      const bool idle = (step / 250) % 4 == static_cast<int>(tenant[1] - '1') && tenant[0] == 'r';
      if (!idle && asks_.size() < 12) (void)Want(absl::StrCat("l", next++), tenant, 80);
      if (!running.empty() && random() % 10 == 0) End(running[random() % running.size()]);
      const auto told = told_;
      Pass(absl::Seconds(10));
      for (const auto& [lease, reason] : told_) taken += told.count(lease) == 0 ? 1 : 0;
      for (const ServerState& server : allocator_->pool().servers()) {
        for (const DeviceState& device : server.devices) {
          ASSERT_LE(device.leased_bytes, device.spec.capacity_bytes);
        }
      }
      ASSERT_LE(LeasesOf("b2").size(), 16u);
      std::set<std::string> wait;
      std::map<std::string, std::set<int>> lines;
      for (const auto& [name, ask] : asks_) {
        wait.insert(ask.tenant());
        if (ask.tenant()[0] == 'r') lines[ask.tenant()].insert(std::stoi(name.substr(1)));
      }
      for (const auto& [owner, line] : lines) {
        size_t with = LeasesOf(owner).size();
        for (const int ask : line) {
          if (++with > 8) break;
          const int64_t since = owed.try_emplace(ask, now_).first->second;
          ASSERT_LE(now_ - since, bound) << owner << " at step " << step;
        }
      }
      for (const std::string& each : tenants) {
        const size_t has = LeasesOf(each).size();
        if (wait.count(each) == 0 || has > 0) starves[each] = now_;
        ASSERT_LE(now_ - starves[each], bound) << each << " starves at step " << step;
      }
      // Who has to give way keeps what it can count on.
      std::map<std::string, size_t> keeps;
      for (const auto& [lease, since] : granted_) {
        const auto* const found = allocator_->pool().Find(lease);
        if (found != nullptr && told_.count(lease) == 0) ++keeps[found->tenant];
      }
      for (const auto& [lease, reason] : told_) {
        const auto* const found = allocator_->pool().Find(lease);
        if (found == nullptr || found->tenant[0] != 'r' || told.count(lease) != 0) continue;
        ASSERT_GE(keeps[found->tenant], 8u) << found->tenant;
      }
    }
  }
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace warpline::placement
