// The formats of the state in etcd: the way back, and states that are being filled.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/etcd/etcd_hold.h"
#include "scheduler/etcd/etcd_records.h"
#include "scheduler/etcd/etcd_store.h"
#include "scheduler/etcd/testing/local_etcd.h"

namespace warpline::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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

class EtcdFormatTest : public ::testing::Test {
 protected:
  void SetUp() override {
    etcd_ = LocalEtcd::Start();
    if (etcd_ == nullptr) GTEST_SKIP() << "etcd is not installed (apt-get install etcd-server)";
    client_ = std::make_unique<EtcdClient>(etcd_->options());
  }

  absl::StatusOr<std::unique_ptr<EtcdStore>> Open(const EtcdHold& hold) {
    return EtcdStore::Open(client_.get(), kPrefix, hold.guard(), nullptr);
  }

  std::string Format() {
    warpline_etcd::RangeRequest request;
    request.set_key(absl::StrCat(kPrefix, "format"));
    const auto found = client_->Range(request);
    return found.ok() && found->kvs_size() == 1 ? found->kvs(0).value() : "";
  }

  // A state of the second format with more than a transaction holds.
  void FillWithSlices(EtcdStore* store, int leases) {
    TenantRecord tenant = {"a", "hash"};
    tenant.slices = {"small"};
    ASSERT_TRUE(store->AddTenant(tenant).ok());
    ASSERT_TRUE(store->AddTenant({"b", "hash"}).ok());
    ASSERT_TRUE(store->AddSlice({"small", {.max_handles = 100}}).ok());
    for (int i = 0; i < leases; ++i) {
      LeaseRecord lease = Lease(absl::StrCat(i));
      lease.slice = {"small", {.max_handles = 100}};
      ASSERT_TRUE(store->AddLease(lease).ok());
    }
    ASSERT_TRUE(store->AddLease(Lease("plain")).ok());
  }

  std::unique_ptr<LocalEtcd> etcd_;
  std::unique_ptr<EtcdClient> client_;
};

TEST_F(EtcdFormatTest, TheWayBackDropsWhatTheFormerFormatHasNoPlaceFor) {
  const auto hold = EtcdHold::Take(client_.get(), kPrefix).value();
  auto store = Open(*hold).value();
  EXPECT_THAT(store->LostInFormat(1), IsEmpty());
  FillWithSlices(store.get(), 130);
  EXPECT_EQ(Format(), "2");
  EXPECT_THAT(store->LostInFormat(2), IsEmpty());
  EXPECT_THAT(store->LostInFormat(1),
              ElementsAre("1 slices", "1 tenants with slices", "130 leases that are of a slice"));
  ASSERT_TRUE(store->BackToFormat(1).ok());
  EXPECT_EQ(Format(), "1");
  store = Open(*hold).value();
  EXPECT_EQ(store->format(), 1);
  EXPECT_EQ(store->Leases()->size(), 131u);
  EXPECT_EQ(store->FindLease("7").value()->slice, SliceRecord());
  EXPECT_EQ(store->FindLease("7").value()->memory_bytes, 1ull << 30);
  EXPECT_EQ(store->Tenants()->size(), 2u);
  EXPECT_THAT(store->Slices().value(), IsEmpty());
  EXPECT_THAT(store->LostInFormat(1), IsEmpty());
  // And forth again.
  ASSERT_TRUE(store->AddSlice({"small", {}}).ok());
  EXPECT_EQ(Format(), "2");
}

TEST_F(EtcdFormatTest, TheFirstReservationMakesAnotherFormatThatHasAWayBack) {
  const auto hold = EtcdHold::Take(client_.get(), kPrefix).value();
  auto store = Open(*hold).value();
  FillWithSlices(store.get(), 2);
  EXPECT_EQ(Format(), "2");
  const SliceShape reserved = {.max_handles = 100, .period_ms = 20, .budget_ms = 5};
  ASSERT_TRUE(store->UpdateSlice({"small", reserved}).ok());
  EXPECT_EQ(Format(), "3");
  LeaseRecord lease = Lease("reserved");
  lease.slice = {"small", reserved};
  ASSERT_TRUE(store->AddLease(lease).ok());
  EXPECT_THAT(store->LostInFormat(3), IsEmpty());
  EXPECT_THAT(store->LostInFormat(2),
              ElementsAre("1 slices with a reservation", "1 leases with a reservation"));
  ASSERT_TRUE(store->BackToFormat(2).ok());
  EXPECT_EQ(Format(), "2");
  store = Open(*hold).value();
  EXPECT_THAT(store->LostInFormat(2), IsEmpty());
  EXPECT_EQ(store->Slices()->front().shape, (SliceShape{.max_handles = 100}));
  EXPECT_EQ(store->FindLease("reserved").value()->slice.shape, (SliceShape{.max_handles = 100}));
  // And forth again.
  ASSERT_TRUE(store->AddSlice({"other", reserved}).ok());
  EXPECT_EQ(Format(), "3");
}

TEST_F(EtcdFormatTest, FormatsThatItCannotGoBackToAreRefused) {
  const auto hold = EtcdHold::Take(client_.get(), kPrefix).value();
  const auto store = Open(*hold).value();
  for (const int64_t format : {-1, 0, 2, 3}) {
    EXPECT_EQ(store->BackToFormat(format).code(), Code::kInvalidArgument) << format;
  }
  EXPECT_TRUE(store->BackToFormat(1).ok());
}

// Whatever transaction is the first that etcd refuses, the state is one that a scheduler of this
// version leads with, and the same command ends what was begun.
TEST_F(EtcdFormatTest, AWayBackThatIsInterruptedCanBeRepeated) {
  auto hold = EtcdHold::Take(client_.get(), kPrefix).value();
  auto store = Open(*hold).value();
  FillWithSlices(store.get(), 130);
  hold.reset();  // The leader's key goes, and with it what guards the changes.
  EXPECT_FALSE(store->BackToFormat(1).ok());
  EXPECT_EQ(Format(), "2");
  EXPECT_EQ(store->AddLease(Lease("after")).code(), Code::kFailedPrecondition);
  // One transaction of two has been made.
  hold = EtcdHold::Take(client_.get(), kPrefix).value();
  for (int i = 0; i < EtcdStore::kMaxOperations; ++i) {
    warpline_etcd::TxnRequest request;
    auto* const put = request.add_success()->mutable_request_put();
    put->set_key(absl::StrCat(kPrefix, "leases/", i));
    put->set_value(EncodeLease(Lease(absl::StrCat(i))));
    ASSERT_TRUE(client_->Commit(request).ok());
  }
  store = Open(*hold).value();
  EXPECT_EQ(store->Leases()->size(), 131u);
  EXPECT_THAT(store->LostInFormat(1),
              ElementsAre("1 slices", "1 tenants with slices", "30 leases that are of a slice"));
  ASSERT_TRUE(store->BackToFormat(1).ok());
  EXPECT_EQ(Format(), "1");
}

TEST_F(EtcdFormatTest, NobodyLeadsWithAStateThatIsBeingFilled) {
  auto hold = EtcdHold::Take(client_.get(), kPrefix).value();
  auto store = EtcdStore::OpenToFill(client_.get(), kPrefix, hold->guard()).value();
  FillWithSlices(store.get(), 3);
  for (const absl::Status& refused :
       {Open(*hold).status(), EtcdStore::OpenToRead(client_.get(), kPrefix).status()}) {
    EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
    EXPECT_THAT(refused.message(), HasSubstr("run `warpline-scheduler state copy` again"));
  }
  // Whoever fills it is killed. Another attempt begins anew.
  store = EtcdStore::OpenToFill(client_.get(), kPrefix, hold->guard()).value();
  ASSERT_TRUE(store->AddTenant({"b", "hash"}).ok());
  ASSERT_TRUE(store->FinishFilling().ok());
  EXPECT_EQ(Format(), "1");
  store = Open(*hold).value();
  EXPECT_EQ(store->Tenants()->size(), 1u);
  EXPECT_THAT(store->Leases().value(), IsEmpty());
  EXPECT_EQ(store->FinishFilling().code(), Code::kFailedPrecondition);
}

TEST_F(EtcdFormatTest, WhatIsFilledIsOfTheFormatThatItNeeds) {
  const auto hold = EtcdHold::Take(client_.get(), kPrefix).value();
  auto store = EtcdStore::OpenToFill(client_.get(), kPrefix, hold->guard()).value();
  // The slice itself may have gone.
  LeaseRecord lease = Lease("1");
  lease.slice = {"small", {.max_handles = 100}};
  ASSERT_TRUE(store->AddLease(lease).ok());
  ASSERT_TRUE(store->FinishFilling().ok());
  EXPECT_EQ(Format(), "2");
}

TEST_F(EtcdFormatTest, WhatIsThereIsNotOverwritten) {
  const auto hold = EtcdHold::Take(client_.get(), kPrefix).value();
  ASSERT_TRUE(Open(*hold).ok());
  const absl::Status refused =
      EtcdStore::OpenToFill(client_.get(), kPrefix, hold->guard()).status();
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("there is a state already"));
  EXPECT_EQ(Format(), "1");
  // Neighbours of the prefix do not count.
  const auto other = EtcdHold::Take(client_.get(), "/warp/").value();
  EXPECT_TRUE(EtcdStore::OpenToFill(client_.get(), "/warp/", other->guard()).ok());
}

TEST_F(EtcdFormatTest, AHoldKeepsOthersOutAndEndsWithItself) {
  auto hold = EtcdHold::Take(client_.get(), kPrefix).value();
  const absl::Status refused = EtcdHold::Take(client_.get(), kPrefix).status();
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("stop all schedulers"));
  EXPECT_TRUE(hold->Extend().ok());
  hold.reset();
  EXPECT_TRUE(EtcdHold::Take(client_.get(), kPrefix).ok());
}

}  // namespace
}  // namespace warpline::scheduler
