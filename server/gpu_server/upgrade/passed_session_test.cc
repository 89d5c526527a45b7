#include "server/gpu_server/upgrade/passed_session.h"

#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/sealed_memory.h"
#include "gtest/gtest.h"
#include "server/gpu_server/testing/away_letters.h"
#include "server/hostlink/handover/journal_file.h"
#include "server/hostlink/handover/variable_file.h"

namespace warpline::server {
namespace {

constexpr uint64_t kGranule = SwapSpace::kGranule;

// A session of one server that another one in this process takes over.
class PassedSessionTest : public testing::Test {
 protected:
  PassedSessionTest() : former_(*SwapSpace::Open(16 * kGranule, 1)) {
    // So that the session's memory is in two parts.
    SwapSpace::Place before = *former_->Take(kGranule);
    SwapSpace::Place between = *former_->Take(kGranule);
    before = SwapSpace::Place();
    cut_.manifest.set_session(7);
    cut_.manifest.set_secret("sixteen letters!");
    auto* const range = cut_.manifest.add_range();
    range->set_va(uint64_t{1} << 40);
    range->set_bytes(4 * kGranule);
    cut_.journal = *JournalFile::CreateMemory();
    Put(cut_.journal.get(), "journal", 100);
    cut_.variables = *CreateVariableFile();
    Put(cut_.variables.get(), "variables", 1 << 20);
    cut_.away = std::make_shared<AwayMemory>();
    cut_.away->used = {true, false, true, true};
    cut_.away->place = *former_->Take(3 * kGranule);
    FillWithLetters(*former_, *cut_.away, "abc");
    for (int i = 0; i < 2; ++i) {
      cut_.staging.push_back(*NewSealedMemory("staging", 8192));
      Put(cut_.staging.back().get(), std::string("staged ") + static_cast<char>('0' + i), 4096);
      cut_.manifest.add_staging()->set_bytes(8192);
    }
    std::vector<UniqueFd> blocks;
    blocks.emplace_back(dup(former_->block_fd(0)));
    next_ = *SwapSpace::Open(16 * kGranule, 1, std::move(blocks));
  }

  std::vector<UniqueFd> Pass() {
    const auto passed = PassSession(&cut_);
    EXPECT_TRUE(passed.ok()) << passed.status();
    std::vector<UniqueFd> fds;
    for (const int fd : passed->fds) fds.emplace_back(dup(fd));
    return fds;
  }
  // Returns what becomes of the session with another manifest.
  absl::Status TakeWith(const std::function<void(warpline_internal::SavedSession*)>& change) {
    std::vector<UniqueFd> fds = Pass();
    warpline_internal::SavedSession manifest = cut_.manifest;
    change(&manifest);
    const std::string bytes = manifest.SerializeAsString();
    fds[0] = *NewSealedMemory("manifest", bytes.size());
    Put(fds[0].get(), bytes, 0);
    return TakePassedSession(std::move(fds), next_.get()).status();
  }

  std::unique_ptr<SwapSpace> former_;
  std::unique_ptr<SwapSpace> next_;
  SessionCut cut_;
};

TEST_F(PassedSessionTest, IsTheSameAndCanBeTakenAgain) {
  for (int round = 0; round < 3; ++round) {
    auto taken = TakePassedSession(Pass(), next_.get());
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(taken->manifest.session(), 7u);
    EXPECT_EQ(Get(taken->journal.get(), 7, 100), "journal");
    EXPECT_EQ(Get(taken->variables.get(), 9, 1 << 20), "variables");
    ASSERT_EQ(taken->staging.size(), 2u);
    EXPECT_EQ(Get(taken->staging[1].get(), 8, 4096), "staged 1");
    EXPECT_EQ(taken->away->used, cut_.away->used);
    EXPECT_EQ(LettersOf(*next_, *taken->away), "abc");
    EXPECT_EQ(next_->free_bytes(), 13 * kGranule);
    // Nobody else has it meanwhile.
    EXPECT_TRUE(absl::IsInvalidArgument(TakePassedSession(Pass(), next_.get()).status()));
  }
  EXPECT_EQ(next_->free_bytes(), 16 * kGranule);
}

TEST_F(PassedSessionTest, ASessionWithoutMemoryNeedsNone) {
  cut_.away = nullptr;
  cut_.manifest.clear_range();
  cut_.variables = UniqueFd();
  const auto taken = TakePassedSession(Pass(), nullptr);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->away, nullptr);
  EXPECT_FALSE(taken->variables.valid());
  EXPECT_EQ(taken->staging.size(), 2u);
}

TEST_F(PassedSessionTest, RefusesAForgedManifest) {
  using Manifest = warpline_internal::SavedSession;
  ASSERT_TRUE(TakeWith([](Manifest*) {}).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(TakeWith([](Manifest* to) { to->set_format(to->format() + 1); })));
  const std::function<void(Manifest*)> forged[] = {
      [](Manifest* to) { to->set_secret("short"); },
      [](Manifest* to) { to->clear_used(); },
      [](Manifest* to) { to->set_used("\x0f"); },
      [](Manifest* to) { to->clear_extent(); },
      [](Manifest* to) { to->mutable_extent(0)->set_block(1); },
      [](Manifest* to) { to->mutable_extent(0)->set_offset(15 * kGranule + 4096); },
      [](Manifest* to) { to->mutable_extent(0)->set_offset(16 * kGranule); },
      [](Manifest* to) { *to->add_extent() = to->extent(0); },
      [](Manifest* to) { to->mutable_range(0)->set_bytes(kGranule / 2); },
      [](Manifest* to) { to->mutable_range(0)->set_bytes(~uint64_t{0} / kGranule * kGranule); },
      [](Manifest* to) { to->set_has_variables(false); },
      [](Manifest* to) { to->add_staging()->set_bytes(8192); },
      [](Manifest* to) { to->mutable_staging(0)->set_bytes(4096); },
  };
  for (size_t i = 0; i < std::size(forged); ++i) {
    EXPECT_TRUE(absl::IsInvalidArgument(TakeWith(forged[i]))) << i << TakeWith(forged[i]);
    EXPECT_EQ(next_->free_bytes(), 16 * kGranule) << i;
  }
}

TEST_F(PassedSessionTest, RefusesOtherDescriptors) {
  for (size_t i = 0; i < 5; ++i) {
    std::vector<UniqueFd> fds = Pass();
    // It could grow and shrink.
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    close(ends[1]);
    fds[i] = UniqueFd(ends[0]);
    const auto taken = TakePassedSession(std::move(fds), next_.get());
    if (i != 1) {
      EXPECT_TRUE(absl::IsInvalidArgument(taken.status())) << i << taken.status();
      continue;
    }
    // The journal is looked at by whoever goes on with the session.
    ASSERT_TRUE(taken.ok());
    EXPECT_FALSE(JournalFile::Adopt(UniqueFd(dup(taken->journal.get()))).ok());
  }
  std::vector<UniqueFd> fds = Pass();
  fds.resize(1);
  EXPECT_TRUE(absl::IsInvalidArgument(TakePassedSession(std::move(fds), next_.get()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(TakePassedSession({}, next_.get()).status()));
}

}  // namespace
}  // namespace warpline::server
