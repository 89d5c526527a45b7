#include "scheduler/placement/replay.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"
#include "scheduler/placement/decision_log.h"
#include "scheduler/placement/testing/pool_events.h"

namespace warpline::placement {
namespace {

namespace fs = std::filesystem;

class ReplayTest : public ::testing::Test {
 protected:
  ReplayTest() : folder_(::testing::TempDir() + "/decisions_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) abort();
  }

  std::unique_ptr<RecordedAllocator> Start(uint64_t file_bytes, uint32_t files) {
    auto created = RecordedAllocator::Create({.order = Order::kPack,
                                              .patience = absl::Seconds(5),
                                              .silence = absl::Seconds(20),
                                              .preemption = true,
                                              .notice = absl::Seconds(10),
                                              .epoch = absl::Seconds(15)},
                                             {folder_, file_bytes, files});
    EXPECT_TRUE(created.ok()) << created.status();
    return *std::move(created);
  }

  // Everything that may happen to a pool, at random.
  void Happen(RecordedAllocator* allocator, int events) {
    const auto apply = [&](Event event) {
      now_ += static_cast<int64_t>(random_() % 2'000'000'000);
      event.set_at_ns(now_);
      const Decision decision = allocator->Apply(event);
      if (event.has_commit_move()) ++moved_;
      moves_ended_ += decision.ended_moves_size();
      for (const auto& due : decision.due()) due_.push_back(due.lease());
      if (event.has_ask() && decision.outcome() == warpline_placement::GRANTED) {
        leases_.push_back(event.ask().lease());
      }
    };
    for (int i = 0; i < events; ++i) {
      const std::string tenant = absl::StrCat("t", random_() % 4);
      const std::string server = absl::StrCat("s", random_() % 6);
      switch (random_() % 19) {
        case 0:
          apply(TenantOf(tenant, random_() % 2 == 0 ? "" : "t0", random_() % 900, random_() % 200,
                         1 + static_cast<uint32_t>(random_() % 3)));
          break;
        case 1:
          apply(ServerOf(server, static_cast<int>(1 + random_() % 8)));
          break;
        case 2: {
          Event event;
          if (random_() % 4 == 0) event.set_remove_server(server);
          if (random_() % 4 == 1) event.set_remove_tenant(tenant);
          apply(event);
          break;
        }
        case 3:
          apply(
              CordonOf(server, random_() % 3 == 0, random_() % 2 == 0 ? 0 : now_ + 5'000'000'000));
          break;
        case 4:
        case 5:
        case 6:
          while (!due_.empty()) {
            apply(ReleaseOf(due_.back()));
            due_.pop_back();
          }
          if (leases_.empty()) break;
          std::swap(leases_[random_() % leases_.size()], leases_.back());
          apply(ReleaseOf(leases_.back()));
          leases_.pop_back();
          break;
        case 7:
        case 8:
          apply(TimePasses());
          break;
        case 16:
        case 17: {
          if (leases_.empty()) break;
          const std::string& lease = leases_[random_() % leases_.size()];
          apply(MoveOf(lease, random_() % 2 == 0 ? "" : server));
          break;
        }
        case 18: {
          if (allocator->allocator().moves().empty()) break;
          const std::string lease = *allocator->allocator().moves().begin();
          apply(random_() % 3 == 0 ? EndMoveOf(lease) : CommitMoveOf(lease));
          break;
        }
        case 9:
          apply(WithdrawOf(tenant, absl::StrCat("k", random_() % 30)));
          break;
        default: {
          Ask ask = AskOf(absl::StrCat("l", next_++), tenant, random_() % 81,
                          random_() % 4 == 0 ? "" : absl::StrCat("k", random_() % 30),
                          static_cast<uint32_t>(1 + random_() % 4));
          ask.mutable_shape()->set_sm_percent(static_cast<uint32_t>(random_() % 3 * 25));
          ask.mutable_shape()->set_time_milli(static_cast<uint32_t>(random_() % 3 * 300));
          ask.set_priority(static_cast<uint32_t>(random_() % 3));
          if (random_() % 5 == 0) ask.set_lasts_ns(3'000'000'000);
          if (random_() % 5 == 0) {
            // Members ask for the same.
            ask = AskOf(ask.lease(), tenant, 40, ask.ticket(), 2);
            ask.set_gang(absl::StrCat("g", random_() % 2));
            ask.set_members(2);
          }
          Event event;
          *event.mutable_ask() = ask;
          apply(event);
        }
      }
    }
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
  }

  std::string folder_;
  std::mt19937_64 random_{7};
  int64_t now_ = 1'800'000'000'000'000'000;
  int next_ = 0;
  std::vector<std::string> leases_;
  std::vector<std::string> due_;
  int moved_ = 0;
  int moves_ended_ = 0;  // By something else that happened.
};

TEST_F(ReplayTest, EveryDecisionIsMadeAgainFromAnyFile) {
  const auto allocator = Start(/*file_bytes=*/200'000, /*files=*/1000);
  Happen(allocator.get(), 20'000);
  EXPECT_TRUE(allocator->log_status().ok());
  const auto files = Files();
  EXPECT_GT(files.size(), 5u);
  uint64_t decided = 0;
  for (const std::string& path : files) {
    std::ifstream file(path, std::ios::binary);
    const auto replay = ReplayDecisions(&file);
    ASSERT_TRUE(replay.ok()) << replay.status();
    EXPECT_EQ(replay->different, 0u) << path << "\n" << replay->difference;
    EXPECT_FALSE(replay->cut_off);
    decided += replay->decided;
  }
  EXPECT_GT(decided, 18'000u);
  EXPECT_GT(moved_, 100);
  EXPECT_GT(moves_ended_, 20);
}

TEST_F(ReplayTest, OldFilesAreRemovedAndNewOnesGoOn) {
  Happen(Start(/*file_bytes=*/20'000, /*files=*/3).get(), 3'000);
  EXPECT_EQ(Files().size(), 3u);
  const uint64_t bytes = fs::file_size(Files()[0]);
  EXPECT_LT(bytes, 100'000u);
  const auto before = Files();
  Happen(Start(/*file_bytes=*/1'000'000, /*files=*/3).get(), 10);
  EXPECT_EQ(Files().size(), 3u);
  EXPECT_NE(before, Files());
}

TEST_F(ReplayTest, ADecisionThatWasChangedIsFound) {
  Happen(Start(/*file_bytes=*/10'000'000, /*files=*/2).get(), 300);
  ASSERT_EQ(Files().size(), 1u);
  std::ifstream file(Files()[0], std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const std::string bytes = text.str();
  // Of a message, so that the record is still one.
  const size_t at = bytes.find("no capacity");
  ASSERT_NE(at, std::string::npos);
  std::istringstream changed(std::string(bytes).replace(at, 2, "so"));
  const auto replay = ReplayDecisions(&changed);
  ASSERT_TRUE(replay.ok());
  EXPECT_GT(replay->different, 0u);
  EXPECT_NE(replay->difference.find("so capacity"), std::string::npos);
  std::istringstream cut(bytes.substr(0, bytes.size() - 3));
  EXPECT_TRUE(ReplayDecisions(&cut)->cut_off);
  std::istringstream empty;
  EXPECT_EQ(ReplayDecisions(&empty).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ReplayTest, NoFileOfBytesHurts) {
  Happen(Start(/*file_bytes=*/10'000'000, /*files=*/2).get(), 200);
  std::ifstream file(Files()[0], std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const google::protobuf::LogSilencer silence;
  for (int round = 0; round < 300; ++round) {
    std::string bytes = text.str();
    for (int i = 0; i < 4; ++i) bytes[random_() % bytes.size()] = static_cast<char>(random_());
    std::istringstream changed(bytes);
    (void)ReplayDecisions(&changed);
  }
}

TEST_F(ReplayTest, AFolderThatCannotBeIsAnError) {
  EXPECT_FALSE(RecordedAllocator::Create({}, {folder_ + "/no/where", 1000, 2}).ok());
  EXPECT_TRUE(RecordedAllocator::Create({}, {}).ok());
}

}  // namespace
}  // namespace warpline::placement
