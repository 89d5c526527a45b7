// Tests that hold for every store of keys.
#include "scheduler/store/key_value_store.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/store/testing/state_house.h"
#include "transport/testing/temp_folder.h"

namespace warpline::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Code = absl::StatusCode;
using Pair = std::pair<std::string, std::string>;

class KeyValueStoreTest : public ::testing::TestWithParam<StateKind> {
 protected:
  void SetUp() override {
    house_ = StateHouse::Make(GetParam(), folder_.path());
    if (house_ == nullptr) GTEST_SKIP() << "etcd is not installed (apt-get install etcd-server)";
    Reopen();
  }

  void Reopen() {
    keys_.reset();
    keys_ = house_->OpenKeys().value();
  }

  std::vector<Pair> All() {
    std::vector<Pair> all;
    const auto status = keys_->ForEach([&](absl::string_view key, const std::string& value) {
      all.emplace_back(key, value);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return all;
  }

  testing::TempFolder folder_;
  std::unique_ptr<StateHouse> house_;
  std::unique_ptr<KeyValueStore> keys_;
};

TEST_P(KeyValueStoreTest, ANewOneIsEmpty) {
  EXPECT_THAT(All(), IsEmpty());
  EXPECT_EQ(keys_->Get("a").value(), std::nullopt);
}

TEST_P(KeyValueStoreTest, WhatWasWrittenIsKeptInTheOrderOfKeys) {
  const std::string odd("odd \0 '); DROP TABLE records;--\xff", 32);
  ASSERT_TRUE(keys_->Write({.puts = {{"b", "1"}, {"a/b", odd}, {"B", ""}, {"a", "2"}}}).ok());
  Reopen();
  EXPECT_THAT(All(), ElementsAre(Pair("B", ""), Pair("a", "2"), Pair("a/b", odd), Pair("b", "1")));
  EXPECT_EQ(keys_->Get("a/b").value(), odd);
  EXPECT_EQ(keys_->Get("B").value(), "");
  EXPECT_EQ(keys_->Get("a/").value(), std::nullopt);
}

TEST_P(KeyValueStoreTest, ABatchReplacesAndDeletes) {
  ASSERT_TRUE(keys_->Write({.puts = {{"a", "1"}, {"b", "1"}}}).ok());
  ASSERT_TRUE(keys_->Write({.puts = {{"a", "2"}, {"c", "2"}}, .deletes = {"b", "none"}}).ok());
  Reopen();
  EXPECT_THAT(All(), ElementsAre(Pair("a", "2"), Pair("c", "2")));
}

TEST_P(KeyValueStoreTest, ABatchThatIsEmptyOrTooLargeChangesNothing) {
  EXPECT_EQ(keys_->Write({}).code(), Code::kInvalidArgument);
  WriteBatch batch;
  for (size_t i = 0; i < KeyValueStore::kMaxBatch; ++i)
    batch.puts.emplace_back(absl::StrCat(i), "");
  batch.deletes.emplace_back("one more");
  EXPECT_EQ(keys_->Write(batch).code(), Code::kInvalidArgument);
  EXPECT_THAT(All(), IsEmpty());
  batch.deletes.clear();
  EXPECT_TRUE(keys_->Write(batch).ok());
  EXPECT_EQ(All().size(), KeyValueStore::kMaxBatch);
}

// The values of a page of etcd's do not fit into one answer.
TEST_P(KeyValueStoreTest, ManyLongValuesAreRead) {
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(keys_->Write({.puts = {{absl::StrCat(1000 + i), std::string(20000, 'v')}}}).ok());
  }
  const auto all = All();
  ASSERT_EQ(all.size(), 300u);
  EXPECT_EQ(all.back().first, "1299");
}

TEST_P(KeyValueStoreTest, AVisitEndsWithItsFirstError) {
  ASSERT_TRUE(keys_->Write({.puts = {{"a", "1"}, {"b", "2"}}}).ok());
  int visits = 0;
  const auto status = keys_->ForEach([&](absl::string_view, const std::string&) {
    ++visits;
    return absl::DataLossError("damaged");
  });
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_EQ(visits, 1);
  EXPECT_TRUE(keys_->Write({.deletes = {"a"}}).ok());
}

TEST_P(KeyValueStoreTest, SaysWhereItIs) {
  EXPECT_THAT(keys_->name(), ::testing::HasSubstr(folder_.path()));
  const absl::Status error = keys_->Explain(absl::UnavailableError("why"));
  EXPECT_EQ(error.code(), Code::kUnavailable);
  EXPECT_THAT(error.message(), ::testing::HasSubstr(folder_.path()));
  EXPECT_THAT(error.message(), ::testing::HasSubstr("why"));
}

INSTANTIATE_TEST_SUITE_P(States, KeyValueStoreTest, kStateKinds, StateKindName);

}  // namespace
}  // namespace warpline::scheduler
