// What the programs of the version before wrote and sent (former/, which record.py makes) is read
// by those of this one.
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "lease/token.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "scheduler/etcd/etcd.pb.h"
#include "scheduler/etcd/etcd_client.h"
#include "scheduler/etcd/etcd_store.h"
#include "scheduler/etcd/testing/local_etcd.h"
#include "scheduler/records.h"
#include "scheduler/sqlite.h"
#include "scheduler/sqlite_store.h"
#include "scheduler/state_folder.h"
#include "transport/testing/temp_folder.h"

namespace warpline::scheduler {
namespace {

std::string Fixture(const std::string& name) {
  const char* const root = std::getenv("TEST_SRCDIR");
  std::ifstream file(
      absl::StrCat(root == nullptr ? "." : root, "/warpline/tests/versions/former/", name));
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

// What record.py puts into each state.
void ExpectWhatWasRecorded(Store* store) {
  const auto tenants = store->Tenants().value();
  ASSERT_EQ(tenants.size(), 2u);
  const TenantRecord& vision = tenants[0].name == "vision" ? tenants[0] : tenants[1];
  EXPECT_EQ(vision.parent, "org");
  EXPECT_EQ(vision.weight, 3u);
  EXPECT_EQ(vision.max_sessions, 9u);
  EXPECT_EQ(vision.slices, std::vector<std::string>{"small"});
  EXPECT_EQ(vision.tiers, kAllTiers);
  EXPECT_EQ(vision.credential_hash.size(), 64u);
  const auto slices = store->Slices().value();
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].name, "small");
  EXPECT_EQ(slices[0].shape.memory_bytes, 64u << 20);
  EXPECT_EQ(slices[0].shape.max_handles, 500u);
  const auto servers = store->Servers().value();
  ASSERT_EQ(servers.size(), 1u);
  EXPECT_EQ(servers[0].name, "gpu1");
  ASSERT_EQ(servers[0].devices.size(), 1u);
  EXPECT_EQ(servers[0].devices[0].backend, "cpu");
  EXPECT_EQ(store->ServersWithCredential()->size(), 2u);
  const auto cordons = store->Cordons().value();
  ASSERT_EQ(cordons.size(), 1u);
  EXPECT_EQ(cordons[0].server, "gpu2");
  EXPECT_EQ(cordons[0].reason, "disk");
  EXPECT_EQ(cordons[0].drained, absl::InfiniteFuture());
  const auto active = store->ActiveLeases().value();
  ASSERT_EQ(active.size(), 1u);
  EXPECT_EQ(active[0].tenant, "vision");
  EXPECT_EQ(active[0].server, "gpu1");
  EXPECT_EQ(active[0].program, "sleep");
  EXPECT_EQ(active[0].devices, std::vector<std::string>{servers[0].devices[0].uuid});
  EXPECT_EQ(active[0].slice, slices[0]);
  EXPECT_EQ(active[0].ends, absl::InfiniteFuture());
  EXPECT_EQ(store->EndedLeases("vision")->size(), 2u);
  // The state is whole: it takes changes.
  EXPECT_TRUE(store->AddTenant({"new", "hash"}).ok());
  LeaseRecord ended = active[0];
  ended.state = LeaseState::kRevoked;
  EXPECT_TRUE(store->UpdateLease(ended).ok());
  EXPECT_TRUE(store->ActiveLeases()->empty());
}

TEST(FixturesTest, TheFormerStateInSqliteIsTakenOver) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/state.db";
  ASSERT_TRUE(Database::Open(path).value()->Execute(Fixture("state.sql").c_str()).ok());
  auto store = SqliteStore::Open(path);
  ASSERT_TRUE(store.ok()) << store.status();
  ExpectWhatWasRecorded(store->get());
}

TEST(FixturesTest, TheFormerStateInEtcdIsTakenOver) {
  const auto etcd = LocalEtcd::Start();
  if (etcd == nullptr) GTEST_SKIP() << "etcd is not installed (apt-get install etcd-server)";
  EtcdClient client(etcd->options());
  int keys = 0;
  for (const absl::string_view line :
       absl::StrSplit(Fixture("etcd.txt"), '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(line, ' ');
    warpline_etcd::TxnRequest request;
    auto* const put = request.add_success()->mutable_request_put();
    put->set_key(absl::StrCat("/warpline/", pair.first));
    put->set_value(pair.second == "-" ? "" : absl::HexStringToBytes(pair.second));
    ASSERT_TRUE(client.Commit(request).ok());
    ++keys;
  }
  EXPECT_GT(keys, 10);
  const auto guard = TakeLead(&client, "/warpline/leader");
  ASSERT_TRUE(guard.ok()) << guard.status();
  auto store = EtcdStore::Open(&client, "/warpline/", *guard, nullptr);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->operator_hash().size(), 64u);
  EXPECT_FALSE((*store)->SigningKeys()->Read()->empty());
  ExpectWhatWasRecorded(store->get());
}

TEST(FixturesTest, AFormerTokenAndItsKeysAreGood) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/keys";
  const std::string keys = Fixture("keys.txt");
  ASSERT_TRUE(WriteSecret(path, keys).ok());
  int64_t created_ms = 0;
  ASSERT_TRUE(absl::SimpleAtoi(keys.substr(0, keys.find(' ')), &created_ms));
  const absl::Time then = absl::FromUnixMillis(created_ms) + absl::Seconds(5);
  const auto ring = KeyRing::Open(path, absl::Hours(24 * 30), absl::Seconds(1), then);
  ASSERT_TRUE(ring.ok()) << ring.status();
  const std::string text(absl::StripAsciiWhitespace(Fixture("token.txt")));
  const auto token = OpenToken(text, ring->VerifyKeys());
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->tenant, "vision");
  EXPECT_EQ(token->server, "gpu1");
  EXPECT_EQ(token->devices.size(), 1u);
  EXPECT_EQ(token->slice.memory_bytes, 64u << 20);
  EXPECT_EQ(token->slice.max_handles, 500u);
  EXPECT_EQ(token->slice.weight, 3u);
  EXPECT_EQ(token->rights, kAllRights);
  EXPECT_TRUE(CheckToken(*token, "gpu1", then).ok());
  EXPECT_FALSE(CheckToken(*token, "gpu1", then + absl::Hours(1)).ok());
  EXPECT_FALSE(OpenToken(text, {SigningKey::Generate()->verify_key()}).ok());
}

TEST(FixturesTest, AFormerClientSaysHelloInAVersionThatWeSpeak) {
  const std::string line = Fixture("hello.txt");
  const std::pair<std::string, std::string> pair =
      absl::StrSplit(absl::StripAsciiWhitespace(line), ' ');
  EXPECT_EQ(pair.first, absl::StrCat(static_cast<uint32_t>(kHello)));
  warpline_internal::Hello hello;
  ASSERT_TRUE(hello.ParseFromString(absl::HexStringToBytes(pair.second)));
  EXPECT_NE(AgreedVersion(hello.min_version(), hello.max_version()), 0u);
  EXPECT_EQ(hello.program(), "vector_add");
  EXPECT_NE(hello.arena_base(), 0u);
  EXPECT_NE(hello.arena_bytes(), 0u);
  EXPECT_NE(hello.features() & kFeatureResume, 0u);
}

}  // namespace
}  // namespace warpline::scheduler
