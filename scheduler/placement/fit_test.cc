#include "scheduler/placement/fit.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "scheduler/placement/pool.h"

namespace warpline::placement {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

void Lease(Pool* pool, const std::string& server, const std::string& device, uint64_t gib,
           uint32_t sm_percent = 0) {
  static uint64_t number = 0;
  ++number;
  pool->Add({.id = absl::StrCat("lease", number),
             .tenant = "t",
             .server = server,
             .devices = {device},
             .memory_bytes = gib * kGiB,
             .sm_percent = sm_percent,
             .number = number});
}

Pool ThreeDevices() {
  Pool pool;
  pool.PutServer("a", {{"GPU-0", 80 * kGiB}, {"GPU-1", 80 * kGiB}}, true);
  pool.PutServer("b", {{"GPU-2", 80 * kGiB}}, true);
  Lease(&pool, "a", "GPU-0", 60);
  Lease(&pool, "a", "GPU-1", 10);
  Lease(&pool, "b", "GPU-2", 76);
  return pool;
}

// The names of the devices of the site, separated by spaces; "none" without one.
std::string Names(const Pool& pool, const std::optional<Site>& site) {
  if (!site.has_value()) return "none";
  std::string names;
  for (const uint32_t i : site->devices) {
    absl::StrAppend(&names, names.empty() ? "" : " ", pool.at({site->server, i}).spec.uuid);
  }
  return names;
}

std::string Find(const Pool& pool, uint64_t gib, Order order, uint32_t gpus = 1,
                 uint32_t sm_percent = 0) {
  return Names(
      pool,
      FindSite(pool, {.memory_bytes = gib * kGiB, .sm_percent = sm_percent, .gpus = gpus}, order));
}

TEST(FitTest, SpreadTakesTheEmptiestDevice) {
  EXPECT_EQ(Find(ThreeDevices(), 4, Order::kSpread), "GPU-1");
}

TEST(FitTest, PackTakesTheFullestDeviceThatFits) {
  const Pool pool = ThreeDevices();
  EXPECT_EQ(Find(pool, 4, Order::kPack), "GPU-2");
  EXPECT_EQ(Find(pool, 5, Order::kPack), "GPU-0");
  EXPECT_EQ(Find(pool, 21, Order::kPack), "GPU-1");
}

TEST(FitTest, PackLeavesWholeDevicesAloneAndBreaksUpTheServerWithFewest) {
  Pool pool = ThreeDevices();
  pool.PutServer("c", {{"GPU-3", 80 * kGiB}, {"GPU-4", 80 * kGiB}}, true);
  pool.PutServer("d", {{"GPU-5", 80 * kGiB}}, true);
  EXPECT_EQ(Find(pool, 70, Order::kPack), "GPU-1");
  EXPECT_EQ(Find(pool, 71, Order::kPack), "GPU-5");
  EXPECT_EQ(Find(pool, 71, Order::kSpread), "GPU-3");
}

TEST(FitTest, OfEqualDevicesTheOneWithLessWeightIsTaken) {
  Pool pool;
  pool.PutServer("a", {{"GPU-0", 80 * kGiB}, {"GPU-1", 80 * kGiB}}, true);
  Lease(&pool, "a", "GPU-0", 5);
  Lease(&pool, "a", "GPU-0", 5);
  Lease(&pool, "a", "GPU-1", 10);
  EXPECT_EQ(Find(pool, 1, Order::kSpread), "GPU-1");
  EXPECT_EQ(Find(pool, 1, Order::kPack), "GPU-1");
}

TEST(FitTest, MultiprocessorsAreSetAsideAsMemoryIs) {
  Pool pool;
  pool.PutServer("a", {{"GPU-0", 80 * kGiB}, {"GPU-1", 80 * kGiB}}, true);
  Lease(&pool, "a", "GPU-0", 30, 60);
  Lease(&pool, "a", "GPU-1", 10, 30);
  EXPECT_EQ(Find(pool, 1, Order::kPack), "GPU-0");
  EXPECT_EQ(Find(pool, 1, Order::kPack, 1, 50), "GPU-1");
  EXPECT_EQ(Find(pool, 1, Order::kSpread, 1, 70), "GPU-1");
  EXPECT_EQ(Find(pool, 1, Order::kSpread, 1, 71), "none");
  EXPECT_EQ(Find(pool, 1, Order::kPack, 2, 41), "none");
  EXPECT_EQ(Find(pool, 1, Order::kPack, 2, 40), "GPU-0 GPU-1");
}

TEST(FitTest, UnnamedSizeIsAQuarterOfTheDevice) {
  const Pool pool = ThreeDevices();
  EXPECT_EQ(FindSite(pool, {}, Order::kSpread)->memory_bytes, 20 * kGiB);
  EXPECT_FALSE(FindSite(pool, {.gpus = 1, .named = {"GPU-2"}}, Order::kSpread).has_value());
}

TEST(FitTest, UnnamedSizeOfSeveralIsThatOfTheSmallest) {
  Pool pool;
  pool.PutServer("a", {{"GPU-0", 80 * kGiB}, {"GPU-1", 40 * kGiB}}, true);
  EXPECT_EQ(FindSite(pool, {.gpus = 2}, Order::kSpread)->memory_bytes, 10 * kGiB);
}

TEST(FitTest, NamedDevicesAreTakenInTheirOrderOrRefused) {
  const Pool pool = ThreeDevices();
  const auto named = [&](std::vector<std::string> names, uint64_t gib) {
    const Want want{.memory_bytes = gib * kGiB,
                    .gpus = static_cast<uint32_t>(names.size()),
                    .named = std::move(names)};
    const auto site = FindSite(pool, want, Order::kSpread);
    return site.has_value() ? Names(pool, site)
                            : absl::StatusCodeToString(WhyNot(pool, want).code());
  };
  EXPECT_EQ(named({"GPU-0"}, 1), "GPU-0");
  EXPECT_EQ(named({"GPU-9"}, 1), "NOT_FOUND");
  EXPECT_EQ(named({"GPU-1", "GPU-0"}, 1), "GPU-1 GPU-0");
  EXPECT_EQ(named({"GPU-1", "GPU-2"}, 1), "NOT_FOUND");
  EXPECT_EQ(named({"GPU-1", "GPU-0"}, 30), "RESOURCE_EXHAUSTED");
}

TEST(FitTest, WhatFitsNowhereIsRefusedWithWhatIsFree) {
  const absl::Status status = WhyNot(ThreeDevices(), {.memory_bytes = 71 * kGiB});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("71680 MiB"), std::string::npos) << status;
  EXPECT_EQ(WhyNot(Pool(), {.memory_bytes = kGiB}).code(), absl::StatusCode::kUnavailable);
}

TEST(FitTest, OverbookedDeviceHasNothingFree) {
  Pool pool;
  pool.PutServer("a", {{"GPU-0", kGiB}}, true);
  Lease(&pool, "a", "GPU-0", 2);
  EXPECT_FALSE(FindSite(pool, {.memory_bytes = kMemoryUnit}, Order::kPack).has_value());
}

TEST(FitTest, SeveralDevicesAreOfOneServer) {
  Pool pool = ThreeDevices();
  pool.PutServer("b", {{"GPU-2", 80 * kGiB}, {"GPU-3", 80 * kGiB}, {"GPU-4", 80 * kGiB}}, true);
  Lease(&pool, "b", "GPU-4", 5);
  // The second best device of b is better than that of a, whose best is worse.
  EXPECT_EQ(Find(pool, 4, Order::kSpread, 2), "GPU-3 GPU-4");
  EXPECT_EQ(Find(pool, 4, Order::kSpread, 3), "GPU-2 GPU-3 GPU-4");
  EXPECT_EQ(Find(pool, 4, Order::kPack, 2), "GPU-0 GPU-1");
  const absl::Status status = WhyNot(pool, {.memory_bytes = 4 * kGiB, .gpus = 4});
  EXPECT_NE(status.message().find("has 3"), std::string::npos) << status;
  EXPECT_EQ(Find(pool, 5, Order::kSpread, 3), "none");
}

// Eight devices: NVLink connects the first four and the last four, each on a NUMA node of its own.
std::vector<DeviceSpec> TwoGroups(const std::string& name) {
  std::vector<DeviceSpec> devices;
  for (uint32_t i = 0; i < 8; ++i) {
    devices.push_back({absl::StrCat(name, i), 80 * kGiB, 1 + i / 4, 1 + i / 4});
  }
  return devices;
}

TEST(FitTest, SeveralDevicesAreConnectedByNvlinkWhereThatCanBe) {
  Pool pool;
  pool.PutServer("a", TwoGroups("a"), true);
  // Two, two and two are free in the first group, three in the second.
  Lease(&pool, "a", "a0", 80);
  Lease(&pool, "a", "a1", 80);
  Lease(&pool, "a", "a4", 80);
  for (const Order order : {Order::kPack, Order::kSpread}) {
    EXPECT_EQ(Find(pool, 80, order, 2), "a2 a3");
    EXPECT_EQ(Find(pool, 80, order, 3), "a5 a6 a7");
    EXPECT_EQ(Find(pool, 80, order, 4).size(), std::string("a2 a3 a5 a6").size());
  }
  // Another server where four are connected is better than this one.
  pool.PutServer("b", TwoGroups("b"), true);
  EXPECT_EQ(Find(pool, 80, Order::kPack, 4), "b0 b1 b2 b3");
  // A single one comes from the group with fewest.
  EXPECT_EQ(Find(pool, 80, Order::kPack, 1), "a2");
}

TEST(FitTest, DevicesThatAreSetAsideAreNobodyElses) {
  Pool pool = ThreeDevices();
  pool.Hold({0, 1}, 7);
  EXPECT_EQ(Find(pool, 4, Order::kSpread), "GPU-0");
  EXPECT_EQ(Names(pool, FindSiteWhere(pool, {.memory_bytes = 4 * kGiB}, Order::kSpread,
                                      [](const ServerState&, const DeviceState& device) {
                                        return device.held_for == 0 || device.held_for == 7;
                                      })),
            "GPU-1");
  pool.Hold({0, 1}, 0);
  EXPECT_EQ(Find(pool, 4, Order::kSpread), "GPU-1");
}

TEST(FitTest, ServersThatAreNotUsableGetNothingUntilTheyAre) {
  Pool pool = ThreeDevices();
  pool.SetUsable("a", false);
  EXPECT_EQ(Find(pool, 4, Order::kSpread), "GPU-2");
  EXPECT_TRUE(CouldEverFit(pool, {.memory_bytes = 80 * kGiB, .gpus = 2}));
  EXPECT_FALSE(CouldEverFit(pool, {.memory_bytes = 81 * kGiB}));
  const uint64_t growth = pool.growth();
  pool.SetUsable("a", true);
  EXPECT_GT(pool.growth(), growth);
  EXPECT_EQ(Find(pool, 4, Order::kSpread), "GPU-1");
}

TEST(FitTest, LeasesOutliveTheServerThatTheyAreOn) {
  Pool pool = ThreeDevices();
  pool.RemoveServer("a");
  EXPECT_EQ(Find(pool, 4, Order::kSpread), "GPU-2");
  // It comes back with one of its devices and another one.
  pool.PutServer("a", {{"GPU-9", 40 * kGiB}, {"GPU-0", 80 * kGiB}}, true);
  EXPECT_EQ(pool.FindServer("a")->devices[1].leased_bytes, 60 * kGiB);
  EXPECT_EQ(pool.FindServer("a")->devices[0].leased_bytes, 0u);
  EXPECT_EQ(Find(pool, 30, Order::kSpread), "GPU-9");
}

TEST(FitTest, NineTenthsOfTheTimeOfADeviceMayBeReserved) {
  Pool pool;
  pool.PutServer("a", {{"GPU-0", 80 * kGiB}}, true);
  Want want = {.memory_bytes = kGiB, .time_milli = 500};
  ASSERT_TRUE(FindSite(pool, want, Order::kSpread).has_value());
  const Allocation lease = {
      .id = "lease", .server = "a", .devices = {"GPU-0"}, .memory_bytes = kGiB, .time_milli = 500};
  pool.Add(lease);
  EXPECT_FALSE(FindSite(pool, want, Order::kSpread).has_value());
  EXPECT_FALSE(FindSite(pool, want, Order::kPack).has_value());
  EXPECT_TRUE(CouldEverFit(pool, want));
  EXPECT_EQ(WhyNot(pool, want).message(),
            "no capacity: 1024 MiB and 50 % of the time wanted, the device with the most free "
            "memory has 80896 MiB and 40 % of the time that is not reserved");
  want.time_milli = 400;
  EXPECT_TRUE(FindSite(pool, want, Order::kSpread).has_value());
  // A lease without a reservation needs none.
  EXPECT_EQ(Find(pool, 4, Order::kPack), "GPU-0");
  want.time_milli = 901;
  EXPECT_FALSE(CouldEverFit(pool, want));
  pool.Remove("lease");
  want.time_milli = 900;
  EXPECT_TRUE(FindSite(pool, want, Order::kSpread).has_value());
}

// The indexes say what looking at every device says.
TEST(FitTest, IndexesAgreeWithTheDevices) {
  Pool pool;
  for (int s = 0; s < 20; ++s) {
    pool.PutServer(absl::StrCat("s", s), TwoGroups(absl::StrCat("s", s, "-")), true);
  }
  uint64_t state = 12345;
  const auto random = [&state](uint64_t below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 33) % below;
  };
  std::vector<std::string> leases;
  for (int step = 0; step < 4000; ++step) {
    const Order order = random(2) == 0 ? Order::kPack : Order::kSpread;
    const Want want{.memory_bytes = (1 + random(80)) * kGiB,
                    .sm_percent = static_cast<uint32_t>(random(3) * 30),
                    .time_milli = static_cast<uint32_t>(random(3) * 200),
                    .gpus = static_cast<uint32_t>(1 + random(3))};
    const auto site = FindSite(pool, want, order);
    const auto scanned = FindSiteWhere(pool, want, order,
                                       [](const ServerState&, const DeviceState&) { return true; });
    ASSERT_EQ(site.has_value(), scanned.has_value());
    if (site.has_value()) {
      for (const uint32_t i : site->devices) ASSERT_TRUE(Fits(pool.at({site->server, i}), want));
      // A single one is as full, or as empty, as the best of all.
      if (want.gpus == 1) {
        ASSERT_EQ(pool.at({site->server, site->devices[0]}).free_bytes(),
                  pool.at({scanned->server, scanned->devices[0]}).free_bytes());
      }
      Allocation lease{.id = absl::StrCat(step),
                       .server = pool.servers()[site->server].name,
                       .memory_bytes = site->memory_bytes,
                       .sm_percent = want.sm_percent,
                       .time_milli = want.time_milli};
      for (const uint32_t i : site->devices) {
        lease.devices.push_back(pool.at({site->server, i}).spec.uuid);
      }
      leases.push_back(lease.id);
      pool.Add(std::move(lease));
    }
    if (!leases.empty() && (!site.has_value() || random(3) == 0)) {
      std::swap(leases[random(leases.size())], leases.back());
      pool.Remove(leases.back());
      leases.pop_back();
    }
  }
  for (const std::string& lease : leases) pool.Remove(lease);
  ASSERT_EQ(pool.by_capacity().size(), 1u);
  EXPECT_TRUE(pool.by_capacity().begin()->second.partial.empty());
  EXPECT_EQ(pool.by_capacity().begin()->second.whole.size(), 20u);
}

}  // namespace
}  // namespace warpline::placement
