#include "client_stub/core/tier/tier_opening.h"

#include <memory>
#include <string>
#include <vector>

#include "client_stub/core/testing/fake_session.h"
#include "common/log/log_capture.h"
#include "common/tier/fatbin_bytes.h"
#include "common/tier/folder_fixture.h"
#include "common/tier/tier_record.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/refusal.h"

namespace warpline::stub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using tier::Container;
using tier::MachineCode;
using tier::Ptx;

// The device is an H200: compute capability 9.0.
class TierOpeningTest : public tier::FolderFixture {
 protected:
  absl::StatusOr<OpenedInTier> Open(TierChoice choice, const std::vector<std::string>& files = {}) {
    TierOpening::Options options;
    options.choice = choice;
    options.program = [this] { return program_; };
    options.files = [files] { return files; };
    options.cache_folder = folder_ + "/cache";
    const TierOpening opening(
        options, [this](const SessionOptions& session) -> absl::StatusOr<std::unique_ptr<Session>> {
          asked_.push_back(session.tier);
          if (session.tier == Tier::kGuarded && !refusal_.ok()) return refusal_;
          return std::make_unique<FakeSession>();
        });
    return opening.Open(session_);
  }

  const std::string program_ = std::string(64, 'a');
  SessionOptions session_;
  absl::Status refusal_;
  std::vector<Tier> asked_;
  LogCapture log_;
};

TEST_F(TierOpeningTest, ATierThatIsNamedIsAskedFor) {
  const auto isolated = Open(TierChoice::kIsolated, {Write("a", Container({Ptx(75)}))});
  ASSERT_TRUE(isolated.ok());
  EXPECT_EQ(isolated->watch, nullptr);
  const auto guarded = Open(TierChoice::kGuarded, {Write("b", Container({MachineCode(90)}))});
  ASSERT_TRUE(guarded.ok());
  EXPECT_NE(guarded->watch, nullptr);
  EXPECT_THAT(asked_, ElementsAre(Tier::kIsolated, Tier::kGuarded));
  refusal_ = TierRefused(absl::FailedPreconditionError("no"));
  EXPECT_EQ(Open(TierChoice::kGuarded).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TierOpeningTest, AProgramOfPtxIsGuardedAndWatched) {
  const auto opened = Open(TierChoice::kAuto, {Write("a", Container({MachineCode(75), Ptx(75)}))});
  ASSERT_TRUE(opened.ok());
  EXPECT_THAT(asked_, ElementsAre(Tier::kGuarded));
  EXPECT_EQ(log_.Text(), "");
  ASSERT_NE(opened->watch, nullptr);
  // What it meets decides the next run.
  opened->watch->OnModule(CudaResult::kNoBinaryForGpu, nullptr, "");
  ASSERT_TRUE(Open(TierChoice::kAuto, {folder_ + "/a"}).ok());
  EXPECT_THAT(asked_, ElementsAre(Tier::kGuarded, Tier::kIsolated));
  EXPECT_THAT(log_.Text(), HasSubstr("--tier=auto chose the isolated tier: a module has no PTX for "
                                     "the device in an earlier run"));
}

TEST_F(TierOpeningTest, AProgramWithoutDeviceCodeIsGuarded) {
  ASSERT_TRUE(Open(TierChoice::kAuto, {"/proc/self/exe", folder_ + "/none"}).ok());
  EXPECT_THAT(asked_, ElementsAre(Tier::kGuarded));
}

TEST_F(TierOpeningTest, MachineCodeAloneIsIsolatedFromTheStart) {
  const std::string program = Write("a", Container({Ptx(75)}));
  const std::string library = Write("lib.so", Container({MachineCode(90)}));
  const auto opened = Open(TierChoice::kAuto, {program, library});
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->watch, nullptr);
  EXPECT_THAT(asked_, ElementsAre(Tier::kIsolated));
  EXPECT_THAT(log_.Text(), HasSubstr(library + ": it has machine code without PTX"));
}

TEST_F(TierOpeningTest, PtxThatTheDeviceDoesNotTakeIsIsolated) {
  const auto opened = Open(TierChoice::kAuto, {Write("a", Container({Ptx(100)}))});
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->watch, nullptr);
  EXPECT_THAT(asked_, ElementsAre(Tier::kGuarded, Tier::kIsolated));
  EXPECT_THAT(log_.Text(), HasSubstr("for compute capability 100 alone, and the device has 90"));
}

TEST_F(TierOpeningTest, AServerThatDoesNotTakeItIsAskedForAnIsolatedSession) {
  const absl::Status refusals[] = {
      TierRefused(absl::FailedPreconditionError("only isolated")),
      TierRefused(absl::PermissionDeniedError("the tenant has no such sessions")),
      TierRefused(absl::UnavailableError("no compiler")),
      absl::FailedPreconditionError("the server has no tiers: it is too old"),
      absl::InvalidArgumentError("one device"),
      absl::ResourceExhaustedError("no memory"),
  };
  for (const absl::Status& refusal : refusals) {
    asked_.clear();
    refusal_ = refusal;
    ASSERT_TRUE(Open(TierChoice::kAuto).ok()) << refusal;
    EXPECT_THAT(asked_, ElementsAre(Tier::kGuarded, Tier::kIsolated));
    EXPECT_THAT(log_.Text(), HasSubstr(std::string(refusal.message())));
  }
}

TEST_F(TierOpeningTest, WhereNoTierWouldDoTheErrorStays) {
  const absl::Status refusals[] = {
      absl::UnavailableError("nobody answers"), absl::DeadlineExceededError("late"),
      absl::NotFoundError("no such device"), absl::UnauthenticatedError("a token"),
      absl::PermissionDeniedError("the lease was ended")};
  for (const absl::Status& refusal : refusals) {
    asked_.clear();
    refusal_ = refusal;
    EXPECT_EQ(Open(TierChoice::kAuto).status(), refusal);
    EXPECT_THAT(asked_, ElementsAre(Tier::kGuarded));
  }
}

TEST_F(TierOpeningTest, KernelsThatAreGuardedInAnotherWayAreIsolated) {
  session_.guard = GuardMode::kFence;
  ASSERT_TRUE(Open(TierChoice::kAuto).ok());
  EXPECT_THAT(asked_, ElementsAre(Tier::kIsolated));
  EXPECT_THAT(log_.Text(), HasSubstr("WARPLINE_GUARD"));
}

}  // namespace
}  // namespace warpline::stub
