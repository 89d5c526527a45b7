// Tests what nice values of clients and priorities of their streams do to the standing of sessions.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "policy/builtin.h"
#include "server/gpu_server/dispatch/dispatcher.h"
#include "server/gpu_server/dispatch/dispatcher_fixture.h"

namespace warpline::dispatch {
namespace {

class NiceTest : public testing::Test {
 protected:
  void Join(const DispatchTerms& terms) {
    registrations_.push_back(*dispatcher_->Join(terms));
    pages_.push_back(WorkersPage(*registrations_.back()));
  }
  EngineSlot& slot(size_t number, Engine engine = Engine::kCompute) {
    return pages_[number]->device(0)[EngineIndex(engine)];
  }
  absl::Duration Look() {
    now_ns += kMs / 10;
    return dispatcher_->LookNow();
  }
  // All sessions always have work, for five seconds. Returns the part of it that each has had.
  std::vector<double> Compete() {
    for (int i = 0; i < 50'000; ++i) {
      for (size_t k = 0; k < pages_.size(); ++k) {
        const bool closed = slot(k).grant().state() == Grant::State::kClosed;
        slot(k).worker.executors_waiting = 1;
        slot(k).worker.executors_in_flight = closed ? 0 : 1;
        if (!closed) slot(k).worker.busy_since_ns = now_ns.load();
      }
      Look();
    }
    std::vector<double> had;
    for (const auto& registration : registrations_) {
      had.push_back(static_cast<double>(registration->usage()[kCompute].busy_ns) / (5000.0 * kMs));
    }
    return had;
  }

  std::unique_ptr<Dispatcher> dispatcher_ = NewDispatcher();
  std::vector<std::unique_ptr<DispatchRegistration>> registrations_;
  std::vector<std::unique_ptr<DispatchPage>> pages_;
};

TEST_F(NiceTest, ANiceSessionHasTheWeightThatLinuxGivesIt) {
  Join({.gpus = {0}, .slice = "a", .niceness = 10, .session = 1});
  Join({.gpus = {0}, .slice = "b", .session = 2});
  EXPECT_NEAR(Compete()[0], 110.0 / (110 + 1024), 0.03);
}

TEST_F(NiceTest, AnEquallyNiceOneHasAsMuch) {
  Join({.gpus = {0}, .slice = "a", .niceness = 19, .session = 1});
  Join({.gpus = {0}, .slice = "b", .niceness = 19, .session = 2});
  EXPECT_NEAR(Compete()[0], 0.5, 0.03);
}

TEST_F(NiceTest, ASessionThatIsNotNiceRestoresTheWeightOfItsSliceAndNoMore) {
  Join({.gpus = {0}, .slice = "a", .niceness = 19, .session = 1});
  Join({.gpus = {0}, .slice = "a", .session = 2});
  Join({.gpus = {0}, .slice = "b", .session = 3});
  EXPECT_NEAR(Compete()[2], 0.5, 0.03);
}

TEST_F(NiceTest, PriorityOfTheSliceCountsMoreThanNiceness) {
  dispatcher_->SetPolicy(*policy::MakePolicy("priority"));
  Join({.gpus = {0}, .slice = "a", .priority = 1, .niceness = 19, .session = 1});
  Join({.gpus = {0}, .slice = "b", .session = 2});
  EXPECT_GT(Compete()[0], 0.95);
}

TEST_F(NiceTest, SessionsOfOneSliceAreLookedAtWhileTheyDifferInNiceness) {
  Join({.gpus = {0}, .slice = "a", .niceness = 5, .session = 1});
  Join({.gpus = {0}, .slice = "a", .niceness = 5, .session = 2});
  EXPECT_EQ(Look(), absl::InfiniteDuration());
  Join({.gpus = {0}, .slice = "a", .session = 3});
  EXPECT_LT(Look(), absl::InfiniteDuration());
  // The nice ones have little in flight while the other one wants the engine, and never none.
  slot(0).worker.executors_in_flight = 1;
  Look();
  EXPECT_TRUE(slot(0).grant().open());
  slot(2).worker.executors_in_flight = 1;
  Look();
  EXPECT_TRUE(slot(2).grant().open());
  for (const size_t nice : {0u, 1u}) {
    EXPECT_TRUE(slot(nice).grant().brief()) << nice;
    EXPECT_EQ(slot(nice).grant().state(), Grant::State::kShared) << nice;
    EXPECT_TRUE(slot(nice, Engine::kCopyIn).grant().open()) << nice;
  }
  slot(2).worker.executors_in_flight = 0;
  Look();
  EXPECT_TRUE(slot(0).grant().open());
  slot(2).worker.executors_in_flight = 1;
  Look();
  pages_.pop_back();
  registrations_.pop_back();
  EXPECT_TRUE(slot(0).grant().open());
  EXPECT_EQ(Look(), absl::InfiniteDuration());
}

TEST_F(NiceTest, PrioritiesOfStreamsOrderTheSessionsOfOneSlice) {
  Join({.gpus = {0}, .slice = "a", .session = 1});
  Join({.gpus = {0}, .slice = "a", .session = 2});
  Join({.gpus = {0}, .slice = "b", .session = 3});
  const auto raise = [&](size_t number, uint32_t rank) {
    RankLine& line = pages_[number]->ranks(0);
    line.raised = rank == 0 ? 0 : 1;
    for (uint32_t i = 1; i <= kMostRank; ++i) line.ranks[i - 1].at_work = i == rank ? 1 : 0;
  };
  for (const Engine engine : {Engine::kCompute, Engine::kCopyIn}) {
    slot(0, engine).worker.executors_in_flight = 1;
    slot(1, engine).worker.executors_in_flight = 1;
  }
  raise(1, 3);
  Look();
  EXPECT_TRUE(slot(0).grant().brief());
  EXPECT_FALSE(slot(1).grant().brief());
  EXPECT_FALSE(slot(0, Engine::kCopyIn).grant().brief()) << "copies have no priorities";
  EXPECT_FALSE(slot(2).grant().brief()) << "another slice's streams are nothing to it";
  raise(0, 4);
  Look();
  EXPECT_FALSE(slot(0).grant().brief());
  EXPECT_TRUE(slot(1).grant().brief());
  raise(0, 0);
  raise(1, 0);
  Look();
  EXPECT_FALSE(slot(0).grant().brief());
  EXPECT_FALSE(slot(1).grant().brief());
}

TEST_F(NiceTest, ANiceSessionsStreamsComeAfterThoseOfOthers) {
  Join({.gpus = {0}, .slice = "a", .niceness = 1, .session = 1});
  Join({.gpus = {0}, .slice = "a", .session = 2});
  slot(0).worker.executors_in_flight = 1;
  slot(1).worker.executors_in_flight = 1;
  pages_[0]->ranks(0).raised = 1;
  pages_[0]->ranks(0).ranks[kMostRank - 1].at_work = 1;
  Look();
  EXPECT_TRUE(slot(0).grant().brief());
  EXPECT_FALSE(slot(1).grant().brief());
}

}  // namespace
}  // namespace warpline::dispatch
