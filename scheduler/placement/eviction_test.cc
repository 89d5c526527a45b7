#include "scheduler/placement/eviction.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace warpline::placement {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

class EvictionTest : public ::testing::Test {
 protected:
  EvictionTest() {
    pool_.PutServer("a", {{"a0", 80 * kGiB}, {"a1", 80 * kGiB}}, true);
    pool_.PutServer("b", {{"b0", 80 * kGiB}, {"b1", 80 * kGiB}}, true);
  }

  void Lease(const std::string& id, std::vector<std::string> devices, uint64_t gib,
             uint32_t priority) {
    pool_.Add({.id = id,
               .tenant = "t",
               .server = devices[0].substr(0, 1),
               .devices = std::move(devices),
               .memory_bytes = gib * kGiB,
               .priority = priority,
               .number = ++number_});
  }

  std::string Victims(uint64_t gib, uint32_t gpus, uint32_t priority) {
    const auto eviction =
        FindEviction(pool_, {.memory_bytes = gib * kGiB, .gpus = gpus}, Order::kPack,
                     {false, priority}, [](const Allocation& lease) {
                       return Rank{false, lease.priority};
                     });
    if (!eviction.has_value()) return "none";
    return absl::StrCat(pool_.servers()[eviction->site.server].name, ": ",
                        absl::StrJoin(eviction->victims, " "));
  }

  Pool pool_;
  uint64_t number_ = 0;
};

TEST_F(EvictionTest, OnlyThoseOfLowerRankHaveToGo) {
  Lease("a-low", {"a0", "a1"}, 80, 1);
  Lease("b-high", {"b0", "b1"}, 80, 5);
  EXPECT_EQ(Victims(10, 1, 1), "none");
  EXPECT_EQ(Victims(10, 1, 2), "a: a-low");
  EXPECT_EQ(Victims(10, 3, 9), "none");
}

TEST_F(EvictionTest, NoneGoesWithoutNeed) {
  Lease("large", {"a0"}, 60, 0);
  Lease("small", {"a0"}, 20, 0);
  Lease("other", {"a1"}, 80, 0);
  Lease("b", {"b0", "b1"}, 80, 0);
  // Both of a0 would make room for 15 as well; the later one is enough.
  EXPECT_EQ(Victims(15, 1, 1), "b: b");
  pool_.SetUsable("b", false);
  EXPECT_EQ(Victims(15, 1, 1), "a: other");
  pool_.Remove("other");
  Lease("older", {"a1"}, 80, 3);
  EXPECT_EQ(Victims(15, 1, 1), "a: small");
  EXPECT_EQ(Victims(30, 1, 1), "a: large");
  EXPECT_EQ(Victims(70, 1, 1), "a: small large");
}

TEST_F(EvictionTest, TheServerWhereTheLeastImportantGoIsChosen) {
  Lease("a0-2", {"a0"}, 80, 2);
  Lease("a1-1", {"a1"}, 80, 1);
  Lease("b0-1", {"b0"}, 40, 1);
  Lease("b0-1b", {"b0"}, 40, 1);
  Lease("b1-1", {"b1"}, 80, 1);
  EXPECT_EQ(Victims(80, 1, 3), "b: b1-1");
  EXPECT_EQ(Victims(80, 2, 3), "b: b1-1 b0-1b b0-1");
  EXPECT_EQ(Victims(40, 2, 3), "b: b1-1 b0-1b");
}

// Whatever is chosen: with all victims gone it fits, and with any one of them still there it does
// not.
TEST_F(EvictionTest, VictimsAreEnoughAndAllNeeded) {
  uint64_t state = 99;
  const auto random = [&state](uint64_t below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 33) % below;
  };
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    Pool pool;
    for (const char* name : {"a", "b", "c"}) {
      std::vector<DeviceSpec> devices;
      for (int i = 0; i < 4; ++i) devices.push_back({absl::StrCat(name, i), 80 * kGiB});
      pool.PutServer(name, devices, true);
    }
    for (uint64_t n = 1; n < 40; ++n) {
      const Want want{.memory_bytes = (5 + random(60)) * kGiB,
                      .gpus = static_cast<uint32_t>(1 + random(3))};
      const auto site = FindSite(pool, want, Order::kSpread);
      if (!site.has_value()) continue;
      Allocation lease{.id = absl::StrCat("l", n),
                       .server = pool.servers()[site->server].name,
                       .memory_bytes = want.memory_bytes,
                       .priority = static_cast<uint32_t>(random(4)),
                       .number = n};
      for (const uint32_t i : site->devices) {
        lease.devices.push_back(pool.at({site->server, i}).spec.uuid);
      }
      pool.Add(lease);
    }
    const Want want{.memory_bytes = (20 + random(60)) * kGiB,
                    .gpus = static_cast<uint32_t>(1 + random(4))};
    if (FindSite(pool, want, Order::kPack).has_value()) continue;
    const auto eviction =
        FindEviction(pool, want, Order::kPack, {false, 2}, [](const Allocation& one) {
          return Rank{false, one.priority};
        });
    if (!eviction.has_value()) continue;
    ++found;
    std::vector<Allocation> victims;
    for (const std::string& victim : eviction->victims) {
      victims.push_back(*pool.Find(victim));
      ASSERT_LT(victims.back().priority, 2u);
    }
    for (const Allocation& kept : victims) {
      for (const Allocation& victim : victims) {
        if (victim.id != kept.id) pool.Remove(victim.id);
      }
      const ServerState& server = pool.servers()[eviction->site.server];
      size_t fitting = 0;
      for (const DeviceState& device : server.devices) fitting += Fits(device, want) ? 1 : 0;
      EXPECT_LT(fitting, want.gpus);
      pool.Remove(kept.id);
      for (const uint32_t i : eviction->site.devices) {
        EXPECT_TRUE(Fits(pool.at({eviction->site.server, i}), want));
      }
      for (const Allocation& victim : victims) pool.Add(victim);
    }
  }
  EXPECT_GT(found, 50);
}

}  // namespace
}  // namespace warpline::placement
