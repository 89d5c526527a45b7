// Tests who may write keys in etcd. key_value_store_test.cc has the rest.
#include "scheduler/etcd/etcd_key_value_store.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/etcd/testing/local_etcd.h"
#include "scheduler/store/store.h"

namespace warpline::scheduler {
namespace {

using ::testing::IsEmpty;
using Code = absl::StatusCode;

constexpr char kPrefix[] = "/warpline/";

class EtcdKeyValueStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    etcd_ = LocalEtcd::Start();
    if (etcd_ == nullptr) GTEST_SKIP() << "etcd is not installed (apt-get install etcd-server)";
    client_ = std::make_unique<EtcdClient>(etcd_->options());
  }

  // The next stores give up soon on an etcd that is paused, and not yet on a slow one.
  void UseImpatientClient() {
    EtcdClientOptions options = etcd_->options();
    options.attempt = options.deadline = absl::Seconds(5);
    client_ = std::make_unique<EtcdClient>(options);
  }

  // Begins another term.
  std::unique_ptr<EtcdKeyValueStore> Lead() {
    const auto guard = TakeLead(client_.get(), absl::StrCat(kPrefix, kLeaderKey)).value();
    return std::make_unique<EtcdKeyValueStore>(
        client_.get(), kPrefix, guard, [this](const std::string& why) { lost_.push_back(why); });
  }

  static absl::Status Put(KeyValueStore* keys, const std::string& key) {
    return keys->Write({.puts = {{key, "value"}}});
  }

  std::unique_ptr<LocalEtcd> etcd_;
  std::unique_ptr<EtcdClient> client_;
  std::vector<std::string> lost_;
};

TEST_F(EtcdKeyValueStoreTest, WhoDoesNotLeadAnyMoreChangesNothing) {
  auto former = Lead();
  ASSERT_TRUE(Put(former.get(), "a").ok());
  auto latter = Lead();
  EXPECT_GT(latter->epoch(), former->epoch());
  const absl::Status refused = Put(former.get(), "b");
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_EQ(refused.message(), "another scheduler leads");
  EXPECT_EQ(lost_.size(), 1u);
  EXPECT_EQ(former->Write({.deletes = {"a"}}).code(), Code::kFailedPrecondition);
  EXPECT_EQ(former->ConfirmSince(0).code(), Code::kFailedPrecondition);
  EXPECT_EQ(lost_.size(), 1u);
  EXPECT_TRUE(latter->Get("a")->has_value());
  EXPECT_FALSE(latter->Get("b")->has_value());
}

// The state in memory stays as it was, and so does the one that is kept.
TEST_F(EtcdKeyValueStoreTest, AStateWhoseSchedulerDoesNotLeadStaysAsItWas) {
  auto former = Store::Open(Lead()).value();
  ASSERT_TRUE(former->AddTenant({"a", "hash"}).ok());
  auto latter = Store::Open(Lead()).value();
  EXPECT_EQ(former->AddTenant({"b", "hash"}).code(), Code::kFailedPrecondition);
  EXPECT_EQ(former->RemoveTenant("a", {}).code(), Code::kFailedPrecondition);
  EXPECT_EQ(former->PutAuditHeads({{"s", "1:a", ""}}).code(), Code::kFailedPrecondition);
  EXPECT_EQ(former->SigningKeys()->Write("keys").code(), Code::kFailedPrecondition);
  EXPECT_EQ(former->Tenants().size(), 1u);
  EXPECT_EQ(Store::Open(Lead()).value()->Tenants().size(), 1u);
}

TEST_F(EtcdKeyValueStoreTest, WhatWasReadIsConfirmedByEtcdUnlessAChangeHasDoneSo) {
  auto keys = Lead();
  uint64_t mark = keys->confirmations();
  EXPECT_TRUE(keys->ConfirmSince(mark).ok());
  EXPECT_EQ(keys->confirmations(), mark + 1);
  mark = keys->confirmations();
  ASSERT_TRUE(Put(keys.get(), "a").ok());
  EXPECT_TRUE(keys->ConfirmSince(mark).ok());
  EXPECT_EQ(keys->confirmations(), mark + 1);
  auto latter = Lead();
  // The change before is no word about now.
  EXPECT_EQ(keys->ConfirmSince(keys->confirmations()).code(), Code::kFailedPrecondition);
  EXPECT_EQ(keys->ConfirmSince(mark).code(), Code::kFailedPrecondition);
}

TEST_F(EtcdKeyValueStoreTest, AChangeOfWhichNothingWasHeardIsTheLast) {
  UseImpatientClient();
  auto keys = Lead();
  ASSERT_TRUE(Put(keys.get(), "a").ok());
  etcd_->Pause();
  EXPECT_EQ(Put(keys.get(), "b").code(), Code::kUnavailable);
  EXPECT_EQ(lost_.size(), 1u);
  etcd_->Continue();
  // The keys that were read before may have changed by now.
  EXPECT_EQ(Put(keys.get(), "c").code(), Code::kFailedPrecondition);
  EXPECT_EQ(keys->ConfirmSince(0).code(), Code::kFailedPrecondition);
  auto latter = Lead();
  EXPECT_TRUE(latter->Get("a")->has_value());
  EXPECT_FALSE(latter->Get("c")->has_value());
}

TEST_F(EtcdKeyValueStoreTest, WhatCannotBeConfirmedNowMayBeLater) {
  UseImpatientClient();
  auto keys = Lead();
  etcd_->Pause();
  EXPECT_EQ(keys->ConfirmSince(keys->confirmations()).code(), Code::kUnavailable);
  etcd_->Continue();
  EXPECT_TRUE(keys->ConfirmSince(keys->confirmations()).ok());
  EXPECT_TRUE(lost_.empty());
}

TEST_F(EtcdKeyValueStoreTest, WhoReadsTakesNoChange) {
  auto keys = Lead();
  ASSERT_TRUE(Put(keys.get(), "a").ok());
  EtcdKeyValueStore reader(client_.get(), kPrefix);
  EXPECT_TRUE(reader.Get("a")->has_value());
  EXPECT_EQ(Put(&reader, "b").code(), Code::kFailedPrecondition);
  EXPECT_EQ(reader.Write({.deletes = {"a"}}).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(keys->Get("a")->has_value());
}

// The key by which one leads is none of the state's, nor are the keys of a neighbour.
TEST_F(EtcdKeyValueStoreTest, OtherKeysAreNotShown) {
  auto keys = Lead();
  EtcdKeyValueStore neighbour(client_.get(), "/warp/",
                              TakeLead(client_.get(), "/warp/leader").value(), nullptr);
  ASSERT_TRUE(Put(&neighbour, "a").ok());
  std::vector<std::string> seen;
  ASSERT_TRUE(keys->ForEach([&](absl::string_view key, const std::string&) {
                    seen.emplace_back(key);
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_THAT(seen, IsEmpty());
}

TEST(EndOfPrefixTest, IsTheFirstKeyThatDoesNotBeginSo) {
  EXPECT_EQ(EndOfPrefix("/a/"), "/a0");
  EXPECT_EQ(EndOfPrefix("a\xff"), "b");
  EXPECT_EQ(EndOfPrefix("\xff"), std::string(1, '\0'));
}

}  // namespace
}  // namespace warpline::scheduler
