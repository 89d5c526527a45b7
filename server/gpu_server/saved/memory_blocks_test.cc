#include "server/gpu_server/saved/memory_blocks.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/gpu_server/testing/away_letters.h"

namespace warpline::server {
namespace {

namespace fs = std::filesystem;
using testing::UnorderedElementsAre;

constexpr uint64_t kGranule = SwapSpace::kGranule;

class MemoryBlocksTest : public testing::Test {
 protected:
  MemoryBlocksTest() {
    const char* const tmp = getenv("TEST_TMPDIR");
    std::string path = absl::StrCat(tmp == nullptr ? "/tmp" : tmp, "/blocks-XXXXXX");
    root_ = mkdtemp(path.data());
    space_ = *SwapSpace::Open(32 * kGranule, 1);
  }
  ~MemoryBlocksTest() override { fs::remove_all(root_); }

  std::unique_ptr<AwayMemory> Memory(const std::string& letters) {
    auto away = std::make_unique<AwayMemory>();
    away->used.assign(letters.size(), true);
    away->place = *space_->Take(letters.size() * kGranule);
    FillWithLetters(*space_, *away, letters);
    return away;
  }

  // Writes memory into a new folder, after the one that was written before. Returns the parts that
  // were written.
  uint64_t Write(const std::string& letters) {
    FormerBlocks next = {.folder = root_ / absl::StrCat("folder-", ++folders_), .manifest = {}};
    fs::create_directory(next.folder);
    const auto away = Memory(letters);
    const auto written = WriteBlocks(next.folder, former_.folder.empty() ? nullptr : &former_,
                                     *away, *space_, &next.manifest);
    EXPECT_TRUE(written.ok()) << written.status();
    // The new folder needs the former one no longer.
    if (!former_.folder.empty()) fs::remove_all(former_.folder);
    former_ = std::move(next);
    return *written / kGranule;
  }

  std::string Read(size_t blocks) {
    const auto away = Memory(std::string(blocks, '-'));
    const absl::Status read = ReadBlocks(former_.folder, former_.manifest, *away, *space_);
    EXPECT_TRUE(read.ok()) << read;
    return LettersOf(*space_, *away);
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(former_.folder)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  fs::path root_;
  std::unique_ptr<SwapSpace> space_;
  FormerBlocks former_;
  int folders_ = 0;
};

TEST_F(MemoryBlocksTest, OnlyChangedPartsAreWrittenAgain) {
  EXPECT_EQ(Write("abcdefghij"), 10u);
  EXPECT_EQ(Write("abcdefghij"), 0u);
  EXPECT_THAT(Files(), UnorderedElementsAre("memory-1"));
  EXPECT_EQ(Write("abcdeXghij"), 1u);
  EXPECT_THAT(Files(), UnorderedElementsAre("memory-1", "memory-2"));
  EXPECT_EQ(Read(10), "abcdeXghij");
  // Parts that were elsewhere, and fewer or more of them.
  EXPECT_EQ(Write("jXa"), 3u);  // Most of the files was not needed.
  EXPECT_EQ(Read(3), "jXa");
  EXPECT_EQ(Write("jYaXk"), 2u);
  EXPECT_EQ(Read(5), "jYaXk");
  EXPECT_EQ(Write(""), 0u);
  EXPECT_THAT(Files(), UnorderedElementsAre());
}

TEST_F(MemoryBlocksTest, EqualPartsAreWrittenOnce) {
  EXPECT_EQ(Write("aaaabaaa"), 2u);
  EXPECT_EQ(Read(8), "aaaabaaa");
}

TEST_F(MemoryBlocksTest, PartsThatNobodyNeedsStayLessThanTheOthers) {
  EXPECT_EQ(Write("abcdefgh"), 8u);
  std::string letters = "abcdefgh";
  for (int round = 0; round < 40; ++round) {
    letters[static_cast<size_t>(round) % 8] = static_cast<char>('A' + round % 26);
    Write(letters);
    EXPECT_EQ(Read(8), letters);
    uint64_t bytes = 0;
    for (const std::string& name : Files()) bytes += fs::file_size(former_.folder + "/" + name);
    EXPECT_LE(bytes, 16 * kGranule) << round;
  }
}

TEST_F(MemoryBlocksTest, AFormerFolderThatWasChangedIsNotUsed) {
  Write("abc");
  fs::resize_file(former_.folder + "/memory-1", 2 * kGranule);
  EXPECT_EQ(Write("abd"), 3u);
  EXPECT_EQ(Read(3), "abd");
  former_.manifest.mutable_memory_file(0)->set_name("../secret");
  EXPECT_EQ(Write("abe"), 3u);
  former_.manifest.add_block_at(0);
  EXPECT_EQ(Write("abe"), 3u);
  EXPECT_EQ(Read(3), "abe");
}

TEST_F(MemoryBlocksTest, PartsThatWereChangedAreNotTaken) {
  Write("abc");
  const auto away = Memory("---");
  for (const int block : {0, 1, 2}) {
    auto manifest = former_.manifest;
    (*manifest.mutable_block_sha256())[static_cast<size_t>(block) * 32 + 31] ^= 1;
    EXPECT_TRUE(absl::IsDataLoss(ReadBlocks(former_.folder, manifest, *away, *space_)));
  }
}

}  // namespace
}  // namespace warpline::server
