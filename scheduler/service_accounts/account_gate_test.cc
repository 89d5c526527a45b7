#include "scheduler/service_accounts/account_gate.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/log/log_capture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/service_accounts/testing/test_cluster.h"

namespace warpline::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class AccountGateTest : public ::testing::Test {
 protected:
  AccountGateTest() : folder_(::testing::TempDir() + "/gate_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) abort();
    path_ = folder_ + "/jwks";
  }

  // As a kubelet does it: the next file takes the place of the one before.
  void Write(const std::string& text) {
    std::ofstream(path_ + ".next") << text;
    std::rename((path_ + ".next").c_str(), path_.c_str());
  }

  absl::StatusOr<std::unique_ptr<AccountGate>> Create() {
    AccountGateOptions options;
    options.keys_path = path_;
    options.rules = {.issuer = kTestIssuer, .audience = "warpline"};
    options.clock = [this] { return now_; };
    return AccountGate::Create(std::move(options));
  }

  void Pass(absl::Duration time) { now_ += time; }

  std::string folder_, path_;
  absl::Time now_ = absl::FromUnixSeconds(kTestMade);
  const TestKey old_ = TestKey::Ec("old"), next_ = TestKey::Ec("next");
  LogCapture log_;
};

TEST_F(AccountGateTest, FollowsTheFile) {
  Write(Jwks({&old_}));
  const auto gate = Create();
  ASSERT_TRUE(gate.ok()) << gate.status();
  EXPECT_TRUE((*gate)->Open(TestToken(old_)).ok());
  EXPECT_FALSE((*gate)->Open(TestToken(next_)).ok());
  // A rotation: both, then the next one alone.
  Write(Jwks({&old_, &next_}));
  EXPECT_FALSE((*gate)->Open(TestToken(next_)).ok()) << "looked too early";
  Pass(absl::Seconds(1));
  EXPECT_TRUE((*gate)->Open(TestToken(next_)).ok());
  EXPECT_TRUE((*gate)->Open(TestToken(old_)).ok());
  Write(Jwks({&next_}));
  Pass(absl::Seconds(1));
  EXPECT_FALSE((*gate)->Open(TestToken(old_)).ok());
  EXPECT_TRUE((*gate)->Open(TestToken(next_)).ok());
  EXPECT_THAT(log_.LinesWith("takes ServiceAccount tokens keys="), SizeIs(3));
}

TEST_F(AccountGateTest, ManyMayAskWhileTheFileChanges) {
  Write(Jwks({&old_}));
  std::atomic<int64_t> seconds = 0;
  AccountGateOptions options;
  options.keys_path = path_;
  options.rules = {.issuer = kTestIssuer, .audience = "warpline"};
  options.clock = [&] { return now_ + absl::Seconds(seconds.load()); };
  const auto gate = AccountGate::Create(std::move(options));
  ASSERT_TRUE(gate.ok()) << gate.status();
  const std::string token = TestToken(old_);
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) {
        if (!(*gate)->Open(token).ok()) ++refused;
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    Write(i % 2 == 0 ? Jwks({&next_, &old_}) : Jwks({&old_}));
    ++seconds;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused.load(), 0);
}

TEST_F(AccountGateTest, ReadsKeysBehindAMarkOfUtf8) {
  std::ofstream(path_) << "\xef\xbb\xbf" << Jwks({&old_}) << "\r\n";
  const auto gate = Create();
  ASSERT_TRUE(gate.ok()) << gate.status();
  EXPECT_TRUE((*gate)->Open(TestToken(old_)).ok());
}

TEST_F(AccountGateTest, NoticesAChangeInPlace) {
  std::ofstream(path_) << Jwks({&old_});
  const auto gate = Create();
  ASSERT_TRUE(gate.ok()) << gate.status();
  std::ofstream(path_) << Jwks({&next_, &old_});
  Pass(absl::Seconds(1));
  EXPECT_TRUE((*gate)->Open(TestToken(next_)).ok());
}

TEST_F(AccountGateTest, GoesOnWithTheKeysOfBeforeWhileTheFileIsWrong) {
  Write(Jwks({&old_}));
  const auto gate = Create();
  ASSERT_TRUE(gate.ok()) << gate.status();
  Write("{\"keys\":");
  for (int i = 0; i < 5; ++i) {
    Pass(absl::Seconds(1));
    EXPECT_TRUE((*gate)->Open(TestToken(old_)).ok());
  }
  EXPECT_THAT(log_.LinesWith("goes on with the cluster's keys of before"), SizeIs(1));
  std::filesystem::remove(path_);
  for (int i = 0; i < 5; ++i) {
    Pass(absl::Seconds(1));
    EXPECT_TRUE((*gate)->Open(TestToken(old_)).ok());
  }
  EXPECT_THAT(log_.LinesWith("goes on with the cluster's keys of before"), SizeIs(2));
  // None at all is said so.
  Write("{\"keys\": []}");
  Pass(absl::Seconds(1));
  EXPECT_FALSE((*gate)->Open(TestToken(old_)).ok());
}

TEST_F(AccountGateTest, WaitsForAFileThatIsNotThereYet) {
  const auto gate = Create();
  ASSERT_TRUE(gate.ok()) << gate.status();
  EXPECT_THAT(log_.LinesWith("takes no ServiceAccount tokens until"), SizeIs(1));
  EXPECT_FALSE((*gate)->Open(TestToken(old_)).ok());
  Write(Jwks({&old_}));
  Pass(absl::Seconds(1));
  EXPECT_TRUE((*gate)->Open(TestToken(old_)).ok());
}

TEST_F(AccountGateTest, LooksAgainWhenTheClockWasSetBack) {
  Write(Jwks({&old_}));
  const auto gate = Create();
  ASSERT_TRUE(gate.ok()) << gate.status();
  Write(Jwks({&next_}));
  Pass(-absl::Seconds(20));
  EXPECT_TRUE((*gate)->Open(TestToken(next_)).ok());
}

TEST_F(AccountGateTest, DoesNotStartWithAFileThatIsWrong) {
  for (const std::string& text : {std::string(), std::string("keys"), old_.PrivatePem()}) {
    Write(text);
    const auto gate = Create();
    ASSERT_FALSE(gate.ok());
    EXPECT_THAT(gate.status().message(), HasSubstr(path_));
  }
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(Create().ok());
}

TEST_F(AccountGateTest, SaysWhichKeysItDoesNotTake) {
  const TestKey wide = TestKey::Ec("wide", "P-384");
  Write(Jwks({&old_, &wide}));
  ASSERT_TRUE(Create().ok());
  EXPECT_THAT(log_.LinesWith("does not take a key of the cluster"), SizeIs(1));
}

}  // namespace
}  // namespace warpline::scheduler
