// What holds for the state in etcd beside what holds for every store (scheduler/store_test.cc).
#include "scheduler/etcd/etcd_store.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/etcd/etcd_records.h"
#include "scheduler/etcd/testing/local_etcd.h"

namespace warpline::scheduler {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr char kPrefix[] = "/warpline/";

LeaseRecord Lease(const std::string& id) {
  LeaseRecord lease;
  lease.id = id;
  lease.tenant = "a";
  lease.server = "s";
  lease.devices = {"GPU-0"};
  lease.memory_bytes = 1ull << 30;
  lease.created = absl::FromUnixMillis(1000);
  lease.expires = absl::FromUnixMillis(2000);
  return lease;
}

class EtcdStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    etcd_ = LocalEtcd::Start();
    if (etcd_ == nullptr) GTEST_SKIP() << "etcd is not installed (apt-get install etcd-server)";
    client_ = std::make_unique<EtcdClient>(etcd_->options());
  }

  // Begins another term.
  absl::StatusOr<std::unique_ptr<EtcdStore>> Lead() {
    const auto guard = TakeLead(client_.get(), absl::StrCat(kPrefix, "leader"));
    if (!guard.ok()) return guard.status();
    return EtcdStore::Open(client_.get(), kPrefix, *guard,
                           [this](const std::string& why) { lost_.push_back(why); });
  }

  void Put(const std::string& key, const std::string& value) {
    warpline_etcd::TxnRequest request;
    auto* const put = request.add_success()->mutable_request_put();
    put->set_key(kPrefix + key);
    put->set_value(value);
    ASSERT_TRUE(client_->Commit(request).ok());
  }

  std::vector<warpline_etcd::KeyValue> Keys(const std::string& under) {
    warpline_etcd::RangeRequest request;
    request.set_key(kPrefix + under);
    request.set_range_end(EndOfPrefix(kPrefix + under));
    const auto found = client_->Range(request);
    if (!found.ok()) return {};
    return {found->kvs().begin(), found->kvs().end()};
  }

  std::unique_ptr<LocalEtcd> etcd_;
  std::unique_ptr<EtcdClient> client_;
  std::vector<std::string> lost_;
};

TEST_F(EtcdStoreTest, WhoDoesNotLeadAnyMoreChangesNothing) {
  auto former = Lead().value();
  ASSERT_TRUE(former->AddTenant({"a", "hash"}).ok());
  ASSERT_TRUE(former->AddLease(Lease("1")).ok());
  auto latter = Lead().value();
  EXPECT_GT(latter->epoch(), former->epoch());
  const absl::Status refused = former->AddLease(Lease("2"));
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_EQ(refused.message(), "another scheduler leads");
  EXPECT_EQ(lost_.size(), 1u);
  EXPECT_EQ(former->RemoveTenant("a", {}).code(), Code::kFailedPrecondition);
  EXPECT_EQ(former->UpdateLease(Lease("1")).code(), Code::kFailedPrecondition);
  EXPECT_EQ(former->PutAuditHeads({{"s", "1:a", ""}}).code(), Code::kFailedPrecondition);
  EXPECT_EQ(former->SigningKeys()->Write("keys").code(), Code::kFailedPrecondition);
  EXPECT_EQ(former->ConfirmSince(0).code(), Code::kFailedPrecondition);
  EXPECT_EQ(lost_.size(), 1u);
  latter = Lead().value();
  EXPECT_EQ(latter->Leases()->size(), 1u);
  EXPECT_EQ(latter->Tenants()->size(), 1u);
}

TEST_F(EtcdStoreTest, WhatWasReadIsConfirmedByEtcdUnlessAChangeHasDoneSo) {
  auto store = Lead().value();
  uint64_t mark = store->confirmations();
  EXPECT_TRUE(store->ConfirmSince(mark).ok());
  EXPECT_EQ(store->confirmations(), mark + 1);
  mark = store->confirmations();
  ASSERT_TRUE(store->AddLease(Lease("1")).ok());
  EXPECT_TRUE(store->ConfirmSince(mark).ok());
  EXPECT_EQ(store->confirmations(), mark + 1);
  auto latter = Lead().value();
  // The change before is no word about now.
  EXPECT_EQ(store->ConfirmSince(store->confirmations()).code(), Code::kFailedPrecondition);
  EXPECT_EQ(store->ConfirmSince(mark).code(), Code::kFailedPrecondition);
}

TEST_F(EtcdStoreTest, AChangeOfWhichNothingWasHeardIsTheLast) {
  auto store = Lead().value();
  ASSERT_TRUE(store->AddLease(Lease("1")).ok());
  etcd_->Pause();
  EXPECT_EQ(store->AddLease(Lease("2")).code(), Code::kUnavailable);
  EXPECT_EQ(lost_.size(), 1u);
  etcd_->Continue();
  // The state in memory may differ from that in etcd by now.
  EXPECT_EQ(store->AddLease(Lease("3")).code(), Code::kFailedPrecondition);
  EXPECT_EQ(store->ConfirmSince(0).code(), Code::kFailedPrecondition);
  auto latter = Lead().value();
  EXPECT_TRUE(latter->FindLease("1")->has_value());
  EXPECT_FALSE(latter->FindLease("3")->has_value());
}

TEST_F(EtcdStoreTest, WhatCannotBeConfirmedNowMayBeLater) {
  auto store = Lead().value();
  etcd_->Pause();
  EXPECT_EQ(store->ConfirmSince(store->confirmations()).code(), Code::kUnavailable);
  etcd_->Continue();
  EXPECT_TRUE(store->ConfirmSince(store->confirmations()).ok());
  EXPECT_TRUE(lost_.empty());
}

TEST_F(EtcdStoreTest, MoreLeasesThanATransactionHoldsEndAtOnce) {
  constexpr int kLeases = 230;
  auto store = Lead().value();
  ASSERT_TRUE(store->AddTenant({"a", "hash"}).ok());
  for (int i = 0; i < kLeases; ++i) ASSERT_TRUE(store->AddLease(Lease(absl::StrCat(i))).ok());
  ASSERT_TRUE(store->RemoveTenant("a", {{"gone"}, absl::FromUnixMillis(9000)}).ok());
  EXPECT_TRUE(store->ActiveLeases()->empty());
  EXPECT_TRUE(Keys("ends/").empty());
  store = Lead().value();
  EXPECT_TRUE(store->ActiveLeases()->empty());
  ASSERT_EQ(store->EndedLeasesOn("s")->size(), static_cast<size_t>(kLeases));
  EXPECT_EQ(store->FindLease("0").value()->reason.text, "gone");
}

// The leader died when it had removed the tenant and not yet written that of its leases.
TEST_F(EtcdStoreTest, LeasesThatHaveEndedByAMarkStayEnded) {
  auto store = Lead().value();
  LeaseRecord other = Lease("2");
  other.tenant = "b";
  for (const LeaseRecord& lease : {Lease("1"), other}) ASSERT_TRUE(store->AddLease(lease).ok());
  Put("ends/tenant/a", EncodeEnd({{"gone"}, absl::FromUnixMillis(9000)}));
  const auto reader = EtcdStore::OpenToRead(client_.get(), kPrefix).value();
  EXPECT_EQ(reader->FindLease("1").value()->state, LeaseState::kRevoked);
  EXPECT_EQ(Keys("ends/").size(), 1u);
  store = Lead().value();
  EXPECT_EQ(store->FindLease("1").value()->state, LeaseState::kRevoked);
  EXPECT_EQ(store->FindLease("1").value()->expires, absl::FromUnixMillis(9000));
  EXPECT_EQ(store->FindLease("2").value()->state, LeaseState::kActive);
  EXPECT_TRUE(Keys("ends/").empty());
  // The same name may come back.
  ASSERT_TRUE(store->AddTenant({"a", "hash"}).ok());
  ASSERT_TRUE(store->AddLease(Lease("3")).ok());
  store = Lead().value();
  EXPECT_EQ(store->FindLease("3").value()->state, LeaseState::kActive);
}

TEST_F(EtcdStoreTest, WhoReadsTakesNoChange) {
  auto store = Lead().value();
  ASSERT_TRUE(store->AddLease(Lease("1")).ok());
  const auto reader = EtcdStore::OpenToRead(client_.get(), kPrefix).value();
  EXPECT_EQ(reader->Leases()->size(), 1u);
  EXPECT_EQ(reader->AddLease(Lease("2")).code(), Code::kFailedPrecondition);
  EXPECT_EQ(reader->RemoveLease("1").code(), Code::kFailedPrecondition);
  EXPECT_EQ(Keys("leases/").size(), 1u);
}

TEST_F(EtcdStoreTest, WhatNoSchedulerWroteIsRefusedAndNamed) {
  ASSERT_TRUE(Lead().ok());
  struct Damage {
    std::string key, value;
  };
  const LeaseRecord lease = Lease("1");
  LeaseRecord nowhere = lease;
  nowhere.devices.clear();
  LeaseRecord huge = lease;
  huge.memory_bytes = 1ull << 60;
  LeaseRecord odd = lease;
  odd.state = static_cast<LeaseState>(7);
  TenantRecord tenant{"a", "hash"};
  tenant.tier = static_cast<TierChoice>(77);
  for (const Damage& damage : {Damage{"leases/1", "\xff\xff\xff"},
                               {"leases/1", EncodeLease(nowhere)},
                               {"leases/1", EncodeLease(huge)},
                               {"leases/1", EncodeLease(odd)},
                               {"leases/no\nname", EncodeLease(lease)},
                               {"leases/", EncodeLease(lease)},
                               {"tenants/a", EncodeTenant(tenant)},
                               {"servers/a", "\x07"},
                               {"credentials/a", ""},
                               {"audits/a", "\xff"},
                               {"ends/tenant/a", "\xff"},
                               {"signing_keys", std::string(100000, 'x')},
                               {"format", "one"}}) {
    Put(damage.key, damage.value);
    const auto store = Lead();
    EXPECT_EQ(store.status().code(), Code::kDataLoss) << damage.key;
    EXPECT_THAT(store.status().message(), HasSubstr(kPrefix));
    warpline_etcd::TxnRequest remove;
    remove.add_success()->mutable_request_delete_range()->set_key(kPrefix + damage.key);
    ASSERT_TRUE(client_->Commit(remove).ok());
  }
  // What a later version of the same format may add is left alone.
  Put("queues/a", "\xff");
  Put("whatever", "\xff");
  EXPECT_TRUE(Lead().ok());
}

TEST_F(EtcdStoreTest, StateOfANewerFormatIsRefused) {
  ASSERT_TRUE(Lead().ok());
  Put("format", absl::StrCat(kEtcdFormat + 1));
  const auto store = Lead();
  EXPECT_EQ(store.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(store.status().message(), HasSubstr(absl::StrCat("format ", kEtcdFormat + 1)));
  EXPECT_EQ(EtcdStore::OpenToRead(client_.get(), kPrefix).status().code(),
            Code::kFailedPrecondition);
}

// A scheduler of before, which would renew leases without the limits of their slices, leads until
// then, and not any more.
TEST_F(EtcdStoreTest, TheFirstSliceMakesAnotherFormatOfTheState) {
  const auto format = [&] {
    warpline_etcd::RangeRequest request;
    request.set_key(absl::StrCat(kPrefix, "format"));
    const auto found = client_->Range(request);
    EXPECT_TRUE(found.ok() && found->kvs_size() == 1);
    return found->kvs(0).value();
  };
  auto store = Lead().value();
  EXPECT_EQ(format(), "1");
  ASSERT_TRUE(store->AddTenant({"a", "hash"}).ok());
  EXPECT_EQ(format(), "1");
  ASSERT_TRUE(store->AddSlice({"small", {.max_handles = 100}}).ok());
  EXPECT_EQ(format(), "2");
  ASSERT_TRUE(store->AddSlice({"large", {}}).ok());
  EXPECT_EQ(Lead().value()->Slices()->size(), 2u);
  EXPECT_EQ(format(), "2");
}

TEST_F(EtcdStoreTest, ASliceThatNobodyCouldHaveMadeIsDamage) {
  ASSERT_TRUE(Lead().ok());
  Put("slices/small", "\xff");
  EXPECT_EQ(Lead().status().code(), Code::kDataLoss);
  // A hundred and one percent of the multiprocessors.
  Put("slices/small", "\x38\x65");
  EXPECT_EQ(Lead().status().code(), Code::kDataLoss);
  Put("slices/small", "\x38\x64");
  EXPECT_EQ(Lead().value()->Slices()->front().shape.sm_percent, 100u);
}

TEST_F(EtcdStoreTest, RecordsThatFillAnAnswerAreReadInSmallerPages) {
  auto store = Lead().value();
  ServerRecord server{"s", "127.0.0.1:1", "1", {}};
  for (int i = 0; i < 64; ++i) {
    server.devices.push_back({absl::StrCat("GPU-", i), std::string(256, 'n'), "cuda", 1});
  }
  for (int i = 0; i < 100; ++i) {
    server.name = absl::StrCat("s", i);
    ASSERT_TRUE(store->PutServer(server).ok());
  }
  EXPECT_EQ(Lead().value()->Servers()->size(), 100u);
}

TEST(EndOfPrefixTest, IsTheFirstKeyThatDoesNotBeginSo) {
  EXPECT_EQ(EndOfPrefix("/a/"), "/a0");
  EXPECT_EQ(EndOfPrefix("a\xff"), "b");
  EXPECT_EQ(EndOfPrefix("\xff"), std::string(1, '\0'));
}

}  // namespace
}  // namespace warpline::scheduler
