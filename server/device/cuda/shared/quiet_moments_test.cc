#include "server/device/cuda/shared/quiet_moments.h"

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/cuda/testing/timeline_driver.h"

namespace warpline::device {
namespace {

// Quiet once it has been asked so often.
class FakeSource : public KernelSource {
 public:
  explicit FakeSource(QuietMoments* moments, int asked = 0) : moments_(moments), left_(asked) {
    moments_->Join(this);
  }
  ~FakeSource() override { moments_->Leave(this); }

  bool Quiet() override { return left_.load() < 0 ? false : left_.load() == 0 || --left_ == 0; }
  void Look() override {}
  void Overdue() override {
    ++overdue_;
    if (obeys_) left_.store(0);
  }
  void Be(int left) { left_.store(left); }
  void Obey() { obeys_ = true; }
  int overdue() const { return overdue_; }

 private:
  QuietMoments* const moments_;
  std::atomic<int> left_;
  std::atomic<int> overdue_{0};
  std::atomic<bool> obeys_{false};
};

constexpr int kNever = -1;

class QuietMomentsTest : public testing::Test {
 protected:
  CUlibrary Load() {
    CUlibrary library = nullptr;
    EXPECT_EQ(driver_.api()->p_cuLibraryLoadData(&library, nullptr, nullptr, nullptr, 0, nullptr,
                                                 nullptr, 0),
              CUDA_SUCCESS);
    return library;
  }

  TimelineDriver driver_;
  QuietOptions options_ = {absl::Milliseconds(1), absl::Milliseconds(4), absl::Milliseconds(30),
                           absl::Milliseconds(30), absl::Milliseconds(30)};
  std::optional<QuietMoments> moments_{std::in_place, driver_.api(), options_};
};

TEST_F(QuietMomentsTest, ACallIsMadeWhenEverybodyIsQuiet) {
  FakeSource one(&*moments_, 3), other(&*moments_, 5);
  EXPECT_EQ(moments_->At([] { return CUDA_ERROR_INVALID_IMAGE; }), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_TRUE(one.Quiet() && other.Quiet());
}

TEST_F(QuietMomentsTest, WhoIsNeverQuietEndsTheWaitAndNothingElse) {
  FakeSource source(&*moments_, kNever);
  bool called = false;
  const auto call = [&] {
    called = true;
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(moments_->At(call), CUDA_ERROR_SYSTEM_NOT_READY);
  EXPECT_FALSE(called);
  EXPECT_EQ(source.overdue(), 1);
  const QuietMoments::Launch launch(&*moments_);  // Launches are not held back for ever.
  source.Be(0);
}

TEST_F(QuietMomentsTest, WhoIsOverdueEndsItsKernelsAndTheOthersGoOn) {
  FakeSource endless(&*moments_, kNever), other(&*moments_);
  endless.Obey();
  EXPECT_EQ(moments_->At([] { return CUDA_SUCCESS; }), CUDA_SUCCESS);
  EXPECT_EQ(endless.overdue(), 1);
  EXPECT_EQ(other.overdue(), 0);
}

TEST_F(QuietMomentsTest, LaunchesAreHeldBackDuringTheMoment) {
  std::atomic<bool> launched{false};
  std::thread other;
  EXPECT_EQ(moments_->At([&] {
    other = std::thread([&] {
      const QuietMoments::Launch launch(&*moments_);
      launched = true;
    });
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    EXPECT_FALSE(launched);
    return CUDA_SUCCESS;
  }),
            CUDA_SUCCESS);
  other.join();
  EXPECT_TRUE(launched);
}

// A kernel may wait for another one that its program launches only now.
TEST_F(QuietMomentsTest, LaunchesGoOnBetweenPauses) {
  options_.patience = absl::Seconds(100);
  moments_.emplace(driver_.api(), options_);
  FakeSource source(&*moments_, kNever);
  std::thread program([&] {
    for (int i = 0; i < 3; ++i) {
      const QuietMoments::Launch launch(&*moments_);
      std::this_thread::yield();
    }
    source.Be(0);
  });
  EXPECT_EQ(moments_->At([] { return CUDA_SUCCESS; }), CUDA_SUCCESS);
  program.join();
}

TEST_F(QuietMomentsTest, WhatNobodyWaitsForIsLeftToALaterMoment) {
  FakeSource source(&*moments_, kNever);
  source.Obey();
  int calls = 0;
  const auto call = [&] {
    ++calls;
    return CUDA_ERROR_INVALID_IMAGE;
  };
  EXPECT_EQ(moments_->IfQuiet(call), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(source.overdue(), 0);
  EXPECT_EQ(calls, 0);
  { const QuietMoments::Launch launch(&*moments_); }
  source.Be(0);
  EXPECT_EQ(moments_->IfQuiet(call), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(calls, 1);
  const QuietMoments::Launch launch(&*moments_);
}

TEST_F(QuietMomentsTest, WhileALaunchIsMadeNothingIsQuiet) {
  std::optional<QuietMoments::Launch> launch(std::in_place, &*moments_);
  EXPECT_EQ(moments_->At([] { return CUDA_SUCCESS; }), CUDA_ERROR_SYSTEM_NOT_READY);
  launch.reset();
  EXPECT_EQ(moments_->At([] { return CUDA_SUCCESS; }), CUDA_SUCCESS);
}

TEST_F(QuietMomentsTest, LibrariesAreUnloadedAtTheNextMoment) {
  FakeSource source(&*moments_, kNever);
  moments_->UnloadLater(Load());
  moments_->UnloadLater(Load());
  EXPECT_EQ(driver_.Count("cuLibraryUnload"), 0);
  EXPECT_EQ(moments_->At([] { return CUDA_SUCCESS; }), CUDA_ERROR_SYSTEM_NOT_READY);
  EXPECT_EQ(driver_.Count("cuLibraryUnload"), 0);
  source.Be(0);
  EXPECT_EQ(moments_->At([] { return CUDA_SUCCESS; }), CUDA_SUCCESS);
  EXPECT_EQ(driver_.Count("cuLibraryUnload"), 2);
}

TEST_F(QuietMomentsTest, ManyLibrariesDoNotWait) {
  for (int i = 0; i < 200; ++i) moments_->UnloadLater(Load());
  EXPECT_GT(driver_.Count("cuLibraryUnload"), 100);
  moments_.reset();
  EXPECT_EQ(driver_.Count("cuLibraryUnload"), 200);
  EXPECT_EQ(driver_.Live(), "");
}

TEST_F(QuietMomentsTest, ThreadsLaunchAndLoadAtTheSameTime) {
  options_.patience = absl::Seconds(100);
  moments_.emplace(driver_.api(), options_);
  std::atomic<int> launching{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const QuietMoments::Launch launch(&*moments_);
        ++launching;
        --launching;
      }
    });
  }
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        FakeSource source(&*moments_, 2);
        EXPECT_EQ(moments_->At([&] {
          EXPECT_EQ(launching.load(), 0);
          return CUDA_SUCCESS;
        }),
                  CUDA_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace warpline::device
