#include "scheduler/simulation/simulation.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "scheduler/placement/replay.h"
#include "scheduler/simulation/fairness.h"
#include "scheduler/simulation/workload.h"

namespace warpline::simulation {
namespace {

WorkloadOptions Small() {
  WorkloadOptions options;
  options.sessions = 3000;
  options.devices = 320;
  options.most_members = 4;
  options.load = 0.9;
  return options;
}

TEST(SimulationTest, EverySessionRunsAndNothingIsPlacedTwice) {
  SimulationOptions options;
  options.servers = 40;
  options.tick = absl::Minutes(2);
  std::string folder = ::testing::TempDir() + "/simulation_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  options.decisions = folder + "/decisions";
  size_t samples = 0;
  const auto figures = Simulation(options, DrawWorkload(Small())).Run([&](const Sample& sample) {
    ++samples;
    EXPECT_LE(sample.used, 1 + 1e-9);
    EXPECT_LE(sample.bound, 1 + 1e-9);
  });
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_EQ(figures->sessions, 3000u);
  EXPECT_GT(figures->placements, 3000u);
  EXPECT_GT(samples, 20u);
  EXPECT_GT(figures->most_waiting, 10u);
  EXPECT_GT(figures->bounded_samples, 10u);
  EXPECT_GT(figures->used, 0.5);
  EXPECT_LT(figures->fragmentation, 0.25);
  EXPECT_GT(figures->fairness, 0.3);
  EXPECT_EQ(figures->waits.at("all").sessions, 3000u);
  EXPECT_GT(figures->waits.at("gang").waited, 0u);
  for (const auto& entry : std::filesystem::directory_iterator(options.decisions)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const auto replay = placement::ReplayDecisions(&file);
    ASSERT_TRUE(replay.ok()) << replay.status();
    EXPECT_GT(replay->decided, 6000u);
    EXPECT_EQ(replay->different, 0u) << replay->difference;
  }
}

TEST(SimulationTest, EpochsBringTheFurthestBehindForward) {
  SimulationOptions options;
  options.servers = 40;
  options.tick = absl::Minutes(2);
  const Workload workload = DrawWorkload(Small());
  const auto without = Simulation(options, workload).Run(nullptr);
  std::string folder = ::testing::TempDir() + "/epochs_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  options.decisions = folder + "/decisions";
  options.epoch = absl::Hours(1);
  const auto with = Simulation(options, workload).Run(nullptr);
  ASSERT_TRUE(without.ok() && with.ok()) << without.status() << with.status();
  EXPECT_EQ(without->taken_back, 0u);
  EXPECT_GT(with->taken_back, 10u);
  EXPECT_GT(with->repeated_hours, 0);
  EXPECT_EQ(with->sessions, without->sessions);
  EXPECT_GT(with->fairness, without->fairness);
  EXPECT_LT(with->most_behind, without->most_behind);
  for (const auto& entry : std::filesystem::directory_iterator(options.decisions)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const auto replay = placement::ReplayDecisions(&file);
    ASSERT_TRUE(replay.ok()) << replay.status();
    EXPECT_EQ(replay->different, 0u) << replay->difference;
  }
}

TEST(SimulationTest, TheSameSeedGivesTheSameFigures) {
  SimulationOptions options;
  options.servers = 40;
  WorkloadOptions workload = Small();
  workload.sessions = 500;
  const auto once = Simulation(options, DrawWorkload(workload)).Run(nullptr);
  const auto again = Simulation(options, DrawWorkload(workload)).Run(nullptr);
  ASSERT_TRUE(once.ok() && again.ok());
  EXPECT_EQ(once->events, again->events);
  EXPECT_EQ(once->used, again->used);
  EXPECT_EQ(once->waits.at("all").mean_s, again->waits.at("all").mean_s);
  workload.seed = 2;
  EXPECT_NE(once->events, Simulation(options, DrawWorkload(workload)).Run(nullptr)->events);
}

TEST(WorkloadTest, SessionsAreLikeThoseOfTheTraces) {
  const Workload workload = DrawWorkload({});
  ASSERT_EQ(workload.sessions.size(), 100000u + workload.running);
  double at_start = 0;
  for (size_t i = 0; i < workload.running; ++i) at_start += workload.sessions[i].devices();
  EXPECT_NEAR(at_start, 9500, 1000);
  size_t parts = 0;
  size_t gangs = 0;
  size_t brief = 0;
  double devices = 0;
  double wanted = 0;
  for (size_t i = workload.running; i < workload.sessions.size(); ++i) {
    const Session& session = workload.sessions[i];
    parts += session.milli < 1000 ? 1 : 0;
    gangs += session.members > 1 ? 1 : 0;
    brief += session.lasts_s <= 1186 ? 1 : 0;
    devices += session.devices();
    wanted += session.devices() * session.lasts_s;
    EXPECT_LT(session.tenant, workload.teams.size());
  }
  EXPECT_NEAR(static_cast<double>(parts), 30000, 600);
  EXPECT_NEAR(static_cast<double>(gangs), 4000, 300);
  EXPECT_NEAR(static_cast<double>(brief), 50000, 800);
  EXPECT_NEAR(devices / 1e5, 3.1, 0.2);
  EXPECT_NEAR(wanted / (workload.sessions.back().arrives_s * 10000), 0.95, 0.1);
}

TEST(FairnessTest, MaxMinGivesWhatIsWantedAndDividesTheRest) {
  EXPECT_EQ(MaxMinShares({1, 5, 5}, {1, 1, 1}, 9), (std::vector<double>{1, 4, 4}));
  EXPECT_EQ(MaxMinShares({10, 10}, {1, 3}, 8), (std::vector<double>{2, 6}));
  EXPECT_EQ(MaxMinShares({1, 1}, {1, 1}, 8), (std::vector<double>{1, 1}));
}

TEST(FairnessTest, JainsIndexIsOneForEqualsAndOneOverNForOneOfThem) {
  EXPECT_DOUBLE_EQ(JainIndex({2, 2, 2}), 1);
  EXPECT_DOUBLE_EQ(JainIndex({5, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(JainIndex({}), 1);
  FairnessMeter meter({{"a", 1}, {"b", 3}}, {{"a1", 0, 1}, {"b1", 1, 1}, {"b2", 1, 2}});
  meter.Add({8, 8, 8}, {2, 2, 4});
  EXPECT_DOUBLE_EQ(meter.Jain(), 1);
  meter.Add({8, 8, 8}, {4, 2, 2});
  EXPECT_LT(meter.Jain(), 0.99);
}

}  // namespace
}  // namespace warpline::simulation
