#include "server/gpu_server/memory/swap_files.h"

#include <unistd.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace warpline::server {
namespace {

constexpr uint64_t kGranule = SwapSpace::kGranule;

class SwapFilesTest : public ::testing::Test {
 protected:
  SwapFilesTest() {
    away_->used = {true, false, true};
    away_->place = *space_->Take(2 * kGranule);
    for (size_t i = 0; i < 2; ++i) Fill(i, static_cast<char>('a' + i));
  }
  // Fills one of the granules in the session's only extent.
  void Fill(size_t granule, char with) {
    const SwapSpace::Extent& extent = away_->place.extents().at(0);
    const std::string text(kGranule, with);
    const auto at = static_cast<off_t>(extent.offset + granule * kGranule);
    EXPECT_EQ(pwrite(space_->block_fd(extent.block), text.data(), text.size(), at),
              static_cast<ssize_t>(text.size()));
  }
  std::string First(size_t granule) {
    const SwapSpace::Extent& extent = away_->place.extents().at(0);
    std::string text(3, 0);
    const auto at = static_cast<off_t>(extent.offset + granule * kGranule);
    EXPECT_EQ(pread(space_->block_fd(extent.block), text.data(), text.size(), at), 3);
    return text;
  }
  absl::Status Store(SwapFiles* files) {
    std::promise<absl::Status> result;
    files->Store(away_, [&](absl::Status status) { result.set_value(std::move(status)); });
    return result.get_future().get();
  }
  absl::Status Fetch(SwapFiles* files) {
    std::promise<absl::Status> result;
    files->Fetch(away_, [&](absl::Status status) { result.set_value(std::move(status)); });
    return result.get_future().get();
  }

  std::unique_ptr<SwapSpace> space_ = *SwapSpace::Open(4 * kGranule, 1);
  std::shared_ptr<AwayMemory> away_ = std::make_shared<AwayMemory>();
  SwapFiles files_{testing::TempDir(), space_.get()};
};

TEST_F(SwapFilesTest, WhatIsInAFileTakesNoHostMemoryAndComesBack) {
  EXPECT_TRUE(Store(&files_).ok());
  EXPECT_EQ(space_->free_bytes(), 4 * kGranule);
  EXPECT_EQ(away_->held_bytes(), 2 * kGranule);
  {
    const auto others = space_->Take(kGranule);  // It comes back elsewhere.
    EXPECT_TRUE(Fetch(&files_).ok());
    EXPECT_EQ(First(0), "aaa");
    EXPECT_EQ(First(1), "bbb");
    EXPECT_EQ(space_->free_bytes(), kGranule);
  }
  EXPECT_TRUE(away_->file == nullptr);
  EXPECT_TRUE(Store(&files_).ok());
  EXPECT_TRUE(Fetch(&files_).ok());
  EXPECT_EQ(First(1), "bbb");
}

TEST_F(SwapFilesTest, WithoutHostMemoryItStaysInTheFile) {
  EXPECT_TRUE(Store(&files_).ok());
  {
    const auto others = space_->Take(3 * kGranule);
    EXPECT_TRUE(absl::IsResourceExhausted(Fetch(&files_)));
    EXPECT_EQ(space_->free_bytes(), kGranule);
  }
  EXPECT_TRUE(Fetch(&files_).ok());
  EXPECT_EQ(First(0), "aaa");
}

TEST_F(SwapFilesTest, WantedItIsNotWritten) {
  away_->wanted = true;
  EXPECT_TRUE(absl::IsCancelled(Store(&files_)));
  EXPECT_EQ(First(0), "aaa");
  EXPECT_EQ(space_->free_bytes(), 2 * kGranule);
}

TEST_F(SwapFilesTest, WhereNoFileCanBeItStaysInHostMemory) {
  SwapFiles nowhere(testing::TempDir() + "/no_such_folder", space_.get());
  EXPECT_FALSE(Store(&nowhere).ok());
  EXPECT_EQ(First(1), "bbb");
  EXPECT_EQ(space_->free_bytes(), 2 * kGranule);
}

TEST_F(SwapFilesTest, WhatWasChangedInTheFileIsNotBroughtBack) {
  EXPECT_TRUE(Store(&files_).ok());
  ASSERT_EQ(pwrite(away_->file->fd(), "x", 1, 5), 1);
  EXPECT_TRUE(absl::IsDataLoss(Fetch(&files_)));
  EXPECT_EQ(space_->free_bytes(), 4 * kGranule);
}

}  // namespace
}  // namespace warpline::server
