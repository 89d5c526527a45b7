#include "scheduler/etcd/leadership.h"

#include <atomic>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "common/steady_time.h"
#include "gtest/gtest.h"
#include "scheduler/etcd/testing/local_etcd.h"

namespace warpline::scheduler {
namespace {

constexpr char kKey[] = "/warpline/leader";

// A scheduler as far as leadership goes.
class Candidate {
 public:
  Candidate(const LocalEtcd& etcd, const std::string& address)
      : client_({.members = etcd.options().members}) {
    LeadershipOptions options;
    options.key = kKey;
    options.address = address;
    options.look = absl::Milliseconds(20);
    // Longer than a busy host keeps a leader from telling etcd.
    options.ttl = absl::Seconds(10);
    options.clock = [this] { return SteadyNow() + absl::Milliseconds(ahead_ms_.load()); };
    options.lead = [this](const EtcdGuard& guard) {
      if (fails_.load()) return absl::DataLossError("the state is damaged");
      guard_ = guard;
      epoch_.store(guard.create_revision);
      return absl::OkStatus();
    };
    options.follow = [this] { epoch_.store(0); };
    leadership_ = std::make_unique<Leadership>(std::move(options), &client_);
  }

  void Start() { leadership_->Start(); }
  void End() { leadership_.reset(); }
  int64_t epoch() const { return epoch_.load(); }
  std::string LeaderElsewhere() const { return leadership_->LeaderElsewhere(); }
  void GiveUp() { leadership_->GiveUp(guard_, "the test says so"); }
  void GiveUp(const EtcdGuard& guard) { leadership_->GiveUp(guard, "of a term before"); }
  void SetFails(bool fails) { fails_.store(fails); }
  void Advance(absl::Duration time) { ahead_ms_ += absl::ToInt64Milliseconds(time); }

 private:
  EtcdClient client_;
  std::atomic<int64_t> ahead_ms_{0};
  std::atomic<int64_t> epoch_{0};
  std::atomic<bool> fails_{false};
  EtcdGuard guard_;
  std::unique_ptr<Leadership> leadership_;
};

class LeadershipTest : public ::testing::Test {
 protected:
  void SetUp() override {
    etcd_ = LocalEtcd::Start();
    if (etcd_ == nullptr) GTEST_SKIP() << "etcd is not installed (apt-get install etcd-server)";
    a_ = std::make_unique<Candidate>(*etcd_, "a:1");
    b_ = std::make_unique<Candidate>(*etcd_, "b:1");
  }

  template <typename Condition>
  static void Await(Condition condition) {
    while (!condition()) absl::SleepFor(absl::Milliseconds(10));
  }

  std::unique_ptr<LocalEtcd> etcd_;
  std::unique_ptr<Candidate> a_;
  std::unique_ptr<Candidate> b_;
};

TEST_F(LeadershipTest, OneLeadsAndTheOtherKnowsWhere) {
  a_->Start();
  Await([&] { return a_->epoch() != 0; });
  EXPECT_EQ(a_->LeaderElsewhere(), "");
  b_->Start();
  Await([&] { return b_->LeaderElsewhere() == "a:1"; });
  EXPECT_EQ(b_->epoch(), 0);
}

TEST_F(LeadershipTest, WhoEndsLeavesTheLeadAtOnceAndTheNextTermIsGreater) {
  a_->Start();
  Await([&] { return a_->epoch() != 0; });
  const int64_t first = a_->epoch();
  b_->Start();
  a_->End();
  Await([&] { return b_->epoch() != 0; });
  EXPECT_EQ(a_->epoch(), 0);
  EXPECT_GT(b_->epoch(), first);
}

TEST_F(LeadershipTest, WhoGivesATermUpMayLeadInTheNext) {
  a_->Start();
  Await([&] { return a_->epoch() != 0; });
  const int64_t first = a_->epoch();
  a_->GiveUp({kKey, first - 1});
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(a_->epoch(), first);
  a_->GiveUp();
  Await([&] { return a_->epoch() > first; });
}

TEST_F(LeadershipTest, WhoWasPausedForLongerThanItsTermLeadsNoMore) {
  a_->Start();
  Await([&] { return a_->epoch() != 0; });
  const int64_t first = a_->epoch();
  a_->Advance(absl::Seconds(60));
  Await([&] { return a_->epoch() != first; });
}

TEST_F(LeadershipTest, WithoutEtcdNobodyLeadsForLong) {
  a_->Start();
  Await([&] { return a_->epoch() != 0; });
  const int64_t first = a_->epoch();
  etcd_->Pause();
  Await([&] { return a_->epoch() == 0; });
  etcd_->Continue();
  Await([&] { return a_->epoch() > first; });
}

TEST_F(LeadershipTest, WhoCannotTakeTheStateOverLeavesItToOthers) {
  a_->SetFails(true);
  a_->Start();
  b_->Start();
  Await([&] { return b_->epoch() != 0; });
  EXPECT_EQ(a_->epoch(), 0);
}

TEST_F(LeadershipTest, WhatNamesNoLeaderIsNobody) {
  EtcdClient client(etcd_->options());
  warpline_etcd::TxnRequest request;
  auto* const put = request.add_success()->mutable_request_put();
  put->set_key(kKey);
  put->set_value("\xff\xff");
  ASSERT_TRUE(client.Commit(request).ok());
  a_->Start();
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(a_->epoch(), 0);
  EXPECT_EQ(a_->LeaderElsewhere(), "");
}

}  // namespace
}  // namespace warpline::scheduler
