#include "scheduler/page/pool_view.h"

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "scheduler/page/pool_json.h"

namespace warpline::scheduler::page {
namespace {

constexpr uint64_t kGiB = 1ull << 30;
const absl::Time kNow = absl::FromUnixSeconds(1800000000);

LeaseRecord Lease(const std::string& id, const std::string& tenant, const std::string& server,
                  const std::string& device) {
  LeaseRecord lease;
  lease.id = id;
  lease.tenant = tenant;
  lease.server = server;
  lease.devices = {device};
  lease.memory_bytes = 2 * kGiB;
  lease.program = absl::StrCat("program-of-", tenant);
  lease.created = kNow;
  lease.expires = kNow + absl::Hours(1);
  return lease;
}

TenantRecord Tenant(const std::string& name, const std::string& parent = "") {
  TenantRecord tenant;
  tenant.name = name;
  tenant.parent = parent;
  tenant.credential_hash = "hash-of-" + name;
  return tenant;
}

// secret-org has secret-team below it; mine has below and deeper below it, and is below above.
class PoolViewTest : public ::testing::Test {
 protected:
  PoolViewTest() {
    pool_.tenants = {Tenant("above"),
                     Tenant("mine", "above"),
                     Tenant("below", "mine"),
                     Tenant("deeper", "below"),
                     Tenant("secret-org"),
                     Tenant("secret-team", "secret-org"),
                     Tenant("secret-sister", "above")};
    pool_.tenants[1].slices = {"small"};
    pool_.slices = {{"small", {}}, {"secret-slice", {}}};
    for (const char* const name : {"host1", "host2", "secret-host"}) {
      ServerInPool& server = pool_.servers.emplace_back();
      server.record = {name, "secret-endpoint:1", "secret-version", {}};
      server.state = "up";
      server.cordoned = true;
      server.cordon_reason = "secret-team was loud";
      for (uint32_t i = 0; i < 2; ++i) {
        server.record.devices.push_back({absl::StrCat(name, "-gpu", i), "H100", "cuda", 80 * kGiB});
        server.numbers.push_back(i);
      }
    }
    pool_.leases = {Lease("l1", "mine", "host1", "host1-gpu1"),
                    Lease("l2", "deeper", "host2", "host2-gpu0"),
                    Lease("secret-l3", "secret-team", "host1", "host1-gpu0"),
                    Lease("secret-l4", "secret-sister", "secret-host", "secret-host-gpu0"),
                    Lease("secret-l5", "above", "secret-host", "secret-host-gpu1"),
                    Lease("l6", "below", "secret-host", "secret-host-gpu0")};
    pool_.leases[5].state = LeaseState::kRevoked;
    pool_.leases[5].reason = {"tenant secret-team needs its device and comes first",
                              EndCause::kMakesWay};
    pool_.leases[5].server = "host1";
    for (const LeaseRecord& lease : pool_.leases) pool_.sessions[lease.id] = 3;
    for (const char* const id : {"l1", "secret-l3"}) {
      pool_.notices[id] = {
          id, kNow, {"server host1 is being drained: secret-team was loud", EndCause::kDrained}};
    }
    for (const char* const tenant : {"below", "secret-team", "secret-sister", "above"}) {
      WaitingInPool waiting;
      waiting.tenant = tenant;
      waiting.gang = absl::StrCat("gang-of-", tenant);
      waiting.since = kNow;
      waiting.why = WaitingInPool::Why::kLimit;
      waiting.limit_of = "above";
      pool_.waiting.push_back(waiting);
    }
  }

  std::string JsonFor(const std::string& tenant) const {
    return PoolJson(SeenByTenant(pool_, tenant), {.tenant = tenant}, "");
  }

  PoolSnapshot pool_;
};

TEST_F(PoolViewTest, ATenantSeesNothingOfOthers) {
  const std::string json = JsonFor("mine");
  EXPECT_FALSE(absl::StrContains(json, "secret")) << json;
  EXPECT_FALSE(absl::StrContains(json, "above")) << json;
  EXPECT_FALSE(absl::StrContains(json, "hash-of")) << json;
}

TEST_F(PoolViewTest, ATenantSeesItsBranch) {
  const auto json = nlohmann::json::parse(JsonFor("mine"));
  ASSERT_EQ(json["leases"].size(), 2u);
  EXPECT_EQ(json["leases"][0]["id"], "l1");
  EXPECT_EQ(json["leases"][0]["sessions"], 3);
  EXPECT_EQ(json["leases"][0]["ending_why"], "its server is being drained");
  EXPECT_EQ(json["leases"][1]["tenant"], "deeper");
  ASSERT_EQ(json["tenants"].size(), 3u);
  EXPECT_FALSE(json["tenants"][0].contains("parent"));
  EXPECT_EQ(json["tenants"][2]["parent"], "below");
  ASSERT_EQ(json["slices"].size(), 1u);
  EXPECT_EQ(json["slices"][0]["name"], "small");
  ASSERT_EQ(json["waiting"].size(), 1u);
  EXPECT_EQ(json["waiting"][0]["why"], "limit");
  EXPECT_FALSE(json["waiting"][0].contains("limit_of"));
  ASSERT_EQ(json["ended"].size(), 1u);
  EXPECT_EQ(json["ended"][0]["why"], "a request that goes first needs its device");
}

TEST_F(PoolViewTest, OfAServerATenantSeesTheDevicesThatItHas) {
  const auto json = nlohmann::json::parse(JsonFor("mine"));
  ASSERT_EQ(json["servers"].size(), 2u);
  ASSERT_EQ(json["servers"][0]["gpus"].size(), 1u);
  EXPECT_EQ(json["servers"][0]["gpus"][0]["n"], 1);
  EXPECT_EQ(json["leases"][0]["gpus"][0], 1);
  // What has ended is on no device.
  EXPECT_TRUE(nlohmann::json::parse(JsonFor("below"))["servers"].size() == 1);
}

TEST_F(PoolViewTest, NobodyIsNotEverybody) {
  EXPECT_TRUE(SeenByTenant(pool_, "").tenants.empty());
  EXPECT_TRUE(SeenByTenant(pool_, "").leases.empty());
  EXPECT_TRUE(SeenByTenant(pool_, "removed").leases.empty());
}

TEST_F(PoolViewTest, ACircleOfTenantsEnds) {
  pool_.tenants[1].parent = "deeper";
  EXPECT_EQ(SeenByTenant(pool_, "mine").tenants.size(), 3u);
}

TEST_F(PoolViewTest, TheOperatorSeesEverything) {
  const auto json = nlohmann::json::parse(PoolJson(pool_, {.is_operator = true}, "other:1"));
  EXPECT_EQ(json["leases"].size(), 5u);
  EXPECT_EQ(json["servers"].size(), 3u);
  EXPECT_EQ(json["tenants"].size(), 7u);
  EXPECT_EQ(json["waiting"][0]["limit_of"], "above");
  EXPECT_EQ(json["leader"], "other:1");
  EXPECT_EQ(json["operator"], true);
}

TEST_F(PoolViewTest, HostileWordsStayWords) {
  const std::string hostile = "</script><img src=x onerror=alert(1)>\"\\\n\xff\xfe\u2028\x01";
  pool_.leases[0].program = hostile;
  pool_.waiting[0].gang = hostile;
  const std::string text = JsonFor("mine");
  for (const char byte : text) ASSERT_TRUE(byte >= ' ' && byte < 0x7f);
  const auto json = nlohmann::json::parse(text);
  EXPECT_TRUE(absl::StartsWith(json["leases"][0]["program"].get<std::string>(), "</script><img"));
}

TEST_F(PoolViewTest, TheSamePoolIsTheSameText) {
  EXPECT_EQ(JsonFor("mine"), JsonFor("mine"));
  pool_.sessions["l1"] = 4;
  const std::string more = JsonFor("mine");
  pool_.sessions["l1"] = 3;
  EXPECT_NE(JsonFor("mine"), more);
}

TEST_F(PoolViewTest, TheLatestOfManyEndedLeasesAreTold) {
  for (int i = 0; i < 500; ++i) {
    LeaseRecord lease = Lease(absl::StrCat("e", i), "mine", "host1", "host1-gpu0");
    lease.state = LeaseState::kRevoked;
    lease.expires = kNow + absl::Hours(1) + absl::Seconds(i);
    pool_.leases.push_back(lease);
  }
  const auto json = nlohmann::json::parse(JsonFor("mine"));
  ASSERT_EQ(json["ended"].size(), kMostEnded);
  EXPECT_EQ(json["ended"][0]["id"], "e499");
}

}  // namespace
}  // namespace warpline::scheduler::page
