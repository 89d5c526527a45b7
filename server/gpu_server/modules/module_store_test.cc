#include "server/gpu_server/modules/module_store.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace warpline::server {
namespace {

namespace fs = std::filesystem;

class ModuleStoreTest : public testing::Test {
 protected:
  ModuleStoreTest() {
    options_.dir = testing::TempDir() + "modules-XXXXXX";
    EXPECT_NE(mkdtemp(options_.dir.data()), nullptr);
    options_.max_bytes = 100;
    options_.min_image_bytes = 1;
    options_.block_bytes = 1;
  }
  ~ModuleStoreTest() override {
    store_.reset();
    fs::remove_all(options_.dir);
  }

  void Open() {
    store_.reset();
    auto store = ModuleStore::Open(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  static UniqueFd Memory(std::string_view bytes) {
    UniqueFd memory(memfd_create("test", MFD_CLOEXEC));
    EXPECT_EQ(write(memory.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return memory;
  }

  absl::Status Keep(const std::string& tenant, std::string_view bytes) {
    return store_->Keep(tenant, Memory(bytes).get(), bytes.size()).status();
  }

  // Returns what Find() gives for the hash of `bytes`; "-" when it finds nothing.
  std::string Find(const std::string& tenant, std::string_view bytes) {
    ContentHash hash;
    EXPECT_TRUE(HashContent(bytes, &hash));
    const auto found = store_->Find(tenant, hash, bytes.size());
    if (!found.ok()) return "-";
    std::string text(bytes.size() + 1, '\0');
    text.resize(static_cast<size_t>(pread(found->get(), text.data(), text.size(), 0)));
    return text;
  }

  // Returns the one file that the store has.
  fs::path File() {
    for (const auto& entry : fs::recursive_directory_iterator(options_.dir)) {
      ContentHash hash;
      if (ParseHash(entry.path().filename().string(), &hash)) return entry.path();
    }
    ADD_FAILURE() << "no file";
    return {};
  }

  ModuleStoreOptions options_;
  std::unique_ptr<ModuleStore> store_;
};

TEST_F(ModuleStoreTest, WhatIsKeptIsFoundAndOutlivesTheProcess) {
  Open();
  EXPECT_EQ(Find("a", "image"), "-");
  EXPECT_TRUE(Keep("a", "image").ok());
  EXPECT_EQ(Find("a", "image"), "image");
  Open();
  EXPECT_EQ(Find("a", "image"), "image");
  EXPECT_EQ(store_->bytes(), 5u);
  EXPECT_EQ(store_->images(), 1u);
  EXPECT_EQ(store_->counters().hits.value(), 1u);
  EXPECT_EQ(store_->counters().hit_bytes.value(), 5u);
}

TEST_F(ModuleStoreTest, TenantsDoNotFindEachOthersUnlessShared) {
  Open();
  EXPECT_TRUE(Keep("a", "image").ok());
  EXPECT_EQ(Find("b", "image"), "-");
  EXPECT_EQ(Find("", "image"), "-");
  options_.shared = true;
  Open();
  EXPECT_EQ(Find("b", "image"), "-");
  EXPECT_TRUE(Keep("a", "image").ok());
  EXPECT_EQ(Find("b", "image"), "image");
}

TEST_F(ModuleStoreTest, NobodyCanChangeWhatWasFound) {
  Open();
  EXPECT_TRUE(Keep("a", "image").ok());
  ContentHash hash;
  ASSERT_TRUE(HashContent("image", &hash));
  const auto found = store_->Find("a", hash, 5);
  ASSERT_TRUE(found.ok());
  EXPECT_LT(pwrite(found->get(), "X", 1, 0), 0);
  EXPECT_NE(ftruncate(found->get(), 1), 0);
  // The same hash with a wrong size is another image.
  EXPECT_FALSE(store_->Find("a", hash, 4).ok());
}

TEST_F(ModuleStoreTest, ChangedAndShortenedFilesAreDropped) {
  for (const char* content : {"imagX", "ima", ""}) {
    Open();
    EXPECT_TRUE(Keep("a", "image").ok());
    const fs::path file = File();
    std::ofstream(file, std::ios::trunc) << content;
    EXPECT_EQ(Find("a", "image"), "-");
    EXPECT_FALSE(fs::exists(file));
    EXPECT_EQ(store_->counters().corrupted.value(), 1u);
    EXPECT_EQ(store_->bytes(), 0u);
    EXPECT_TRUE(Keep("a", "image").ok());
    EXPECT_EQ(Find("a", "image"), "image");
    fs::remove(File());
    EXPECT_EQ(Find("a", "image"), "-");
    EXPECT_EQ(store_->images(), 0u);
  }
}

TEST_F(ModuleStoreTest, TheLeastRecentlyUsedGoesFirstAlsoAfterARestart) {
  options_.max_bytes = 15;
  Open();
  EXPECT_TRUE(Keep("a", "11111").ok());
  EXPECT_TRUE(Keep("a", "22222").ok());
  EXPECT_TRUE(Keep("a", "33333").ok());
  EXPECT_EQ(Find("a", "11111"), "11111");
  EXPECT_TRUE(Keep("a", "44444").ok());
  EXPECT_EQ(Find("a", "22222"), "-");
  EXPECT_EQ(Find("a", "33333"), "33333");
  EXPECT_EQ(Find("a", "11111"), "11111");
  EXPECT_EQ(store_->counters().evictions.value(), 1u);
  EXPECT_EQ(store_->bytes(), 15u);
  options_.max_bytes = 5;
  Open();
  EXPECT_EQ(store_->images(), 1u);
  EXPECT_EQ(Find("a", "11111"), "11111");
}

TEST_F(ModuleStoreTest, WhoStoresMostLosesFirst) {
  options_.max_bytes = 15;
  Open();
  EXPECT_TRUE(Keep("small", "11111").ok());
  EXPECT_TRUE(Keep("greedy", "22222").ok());
  EXPECT_TRUE(Keep("greedy", "33333").ok());
  EXPECT_TRUE(Keep("greedy", "44444").ok());
  EXPECT_TRUE(Keep("greedy", "55555").ok());
  EXPECT_EQ(Find("small", "11111"), "11111");
  EXPECT_EQ(Find("greedy", "22222"), "-");
}

TEST_F(ModuleStoreTest, KeepingTheSameAgainTakesNoRoom) {
  Open();
  EXPECT_TRUE(Keep("a", "image").ok());
  EXPECT_TRUE(Keep("a", "image").ok());
  EXPECT_EQ(store_->images(), 1u);
  EXPECT_EQ(store_->counters().stored.value(), 1u);
}

TEST_F(ModuleStoreTest, OnlyPlainMemoryOfTheRightSizeIsStored) {
  Open();
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const UniqueFd read_end(pipes[0]), write_end(pipes[1]);
  // Reading an empty pipe would block for ever.
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Keep("a", read_end.get(), 5).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Keep("a", -1, 5).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Keep("a", Memory("image").get(), 6).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Keep("a", Memory("image").get(), 0).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Keep("a", std::string(101, 'x'))));
  EXPECT_EQ(store_->images(), 0u);
}

TEST_F(ModuleStoreTest, SmallImagesAreNotStored) {
  options_.max_bytes = 1u << 20;
  options_.min_image_bytes = ModuleStoreOptions().min_image_bytes;
  Open();
  const std::string smallest(16384, 's');
  EXPECT_TRUE(Keep("a", smallest).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Keep("a", smallest.substr(1))));
  EXPECT_EQ(store_->images(), 1u);
}

TEST_F(ModuleStoreTest, SmallImagesOfAnOlderServerGo) {
  Open();
  EXPECT_TRUE(Keep("a", "small").ok());
  options_.min_image_bytes = 6;
  Open();
  EXPECT_EQ(store_->images(), 0u);
  options_.min_image_bytes = 1;
  Open();
  EXPECT_EQ(Find("a", "small"), "-");
}

TEST_F(ModuleStoreTest, FilesCountAsWhatTheyTakeOnTheDisk) {
  options_.block_bytes = 40;
  Open();
  EXPECT_TRUE(Keep("a", "1").ok());
  EXPECT_TRUE(Keep("a", "2").ok());
  EXPECT_EQ(store_->bytes(), 80u);
  EXPECT_TRUE(Keep("a", "3").ok());
  EXPECT_EQ(store_->images(), 2u);
  EXPECT_EQ(Find("a", "1"), "-");
  EXPECT_EQ(Find("a", "2"), "2");
  Open();
  EXPECT_EQ(store_->bytes(), 80u);
}

TEST_F(ModuleStoreTest, ATenantsImagesAreBoundedInNumber) {
  options_.max_scope_images = 3;
  Open();
  EXPECT_TRUE(Keep("other", "0").ok());
  for (const char* const image : {"1", "2", "3", "4", "5"}) EXPECT_TRUE(Keep("a", image).ok());
  EXPECT_EQ(store_->images(), 4u);
  EXPECT_EQ(Find("a", "2"), "-");
  EXPECT_EQ(Find("a", "3"), "3");
  EXPECT_EQ(Find("other", "0"), "0");
  options_.max_scope_images = 2;
  Open();
  EXPECT_EQ(store_->images(), 3u);
}

TEST_F(ModuleStoreTest, ADiskThatTakesNothingLeavesNothingBehind) {
  Open();
  // Files cannot grow beyond this size, so the second one is cut short.
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  const UniqueFd image = Memory("image");
  const rlimit limit = {3, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_FALSE(store_->Keep("a", image.get(), 5).ok());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(store_->counters().failures.value(), 1u);
  EXPECT_EQ(Find("a", "image"), "-");
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(options_.dir)) {
    files += entry.is_regular_file() && entry.path().filename() != "lock" ? 1 : 0;
  }
  EXPECT_EQ(files, 0u);
  EXPECT_TRUE(Keep("a", "image").ok());
}

TEST_F(ModuleStoreTest, AFolderHasOneOwnerAndIsClosedToOthers) {
  Open();
  EXPECT_TRUE(absl::IsFailedPrecondition(ModuleStore::Open(options_).status()));
  EXPECT_EQ(fs::status(options_.dir).permissions(), fs::perms::owner_all);
}

TEST_F(ModuleStoreTest, WhatACrashLeftBehindIsRemoved) {
  std::ofstream(options_.dir + "/new-7") << "half";
  std::ofstream(options_.dir + "/somebody's file") << "stays";
  Open();
  EXPECT_FALSE(fs::exists(options_.dir + "/new-7"));
  EXPECT_TRUE(fs::exists(options_.dir + "/somebody's file"));
}

}  // namespace
}  // namespace warpline::server
