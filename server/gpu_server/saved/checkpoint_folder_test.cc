#include "server/gpu_server/saved/checkpoint_folder.h"

#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/gpu_server/testing/away_letters.h"
#include "server/hostlink/handover/journal_file.h"

namespace warpline::server {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uint64_t kGranule = SwapSpace::kGranule;

class CheckpointFolderTest : public testing::Test {
 protected:
  CheckpointFolderTest() {
    const char* const tmp = getenv("TEST_TMPDIR");
    std::string path = absl::StrCat(tmp == nullptr ? "/tmp" : tmp, "/checkpoint-XXXXXX");
    root_ = mkdtemp(path.data());
    dir_ = root_ / "checkpoint";
    space_ = *SwapSpace::Open(32 * kGranule, 1);
    Reopen();
  }
  ~CheckpointFolderTest() override {
    folder_.reset();
    fs::remove_all(root_);
  }

  void Reopen() {
    folder_.reset();
    auto opened = CheckpointFolder::Open(dir_, true, space_.get());
    ASSERT_TRUE(opened.ok()) << opened.status();
    folder_ = *std::move(opened);
  }

  SessionCut Cut(uint64_t session, const std::string& letters) {
    SessionCut cut;
    cut.manifest.set_session(session);
    cut.manifest.set_secret(absl::StrCat("secret of one: ", session % 10));
    cut.manifest.add_range()->set_bytes(letters.size() * kGranule);
    cut.journal = *JournalFile::CreateMemory();
    Put(cut.journal.get(), "journal", 4096);
    cut.away = std::make_shared<AwayMemory>();
    cut.away->used.assign(letters.size(), true);
    cut.away->place = *space_->Take(letters.size() * kGranule);
    FillWithLetters(*space_, *cut.away, letters);
    return cut;
  }

  // Returns the parts of memory that were written.
  uint64_t Write(const std::string& first, const std::string& second, uint64_t number = 7) {
    std::vector<SessionCut> cuts;
    cuts.push_back(Cut(number, first));
    if (!second.empty()) cuts.push_back(Cut(number + 1, second));
    const auto written = folder_->Write(&cuts);
    EXPECT_TRUE(written.ok()) << written.status();
    return written.ok() ? *written / kGranule : ~uint64_t{0};
  }

  absl::StatusOr<std::vector<SessionCut>> ReadAll() {
    auto manifests = folder_->Manifests();
    if (!manifests.ok()) return manifests.status();
    return folder_->Read(*std::move(manifests));
  }

  // Returns the sessions' memory.
  std::vector<std::string> Read() {
    const auto cuts = ReadAll();
    EXPECT_TRUE(cuts.ok()) << cuts.status();
    std::vector<std::string> letters;
    if (!cuts.ok()) return letters;
    for (const SessionCut& cut : *cuts) {
      EXPECT_EQ(Get(cut.journal.get(), 7, 4096), "journal");
      letters.push_back(LettersOf(*space_, *cut.away));
    }
    return letters;
  }

  fs::path root_;
  fs::path dir_;
  std::unique_ptr<SwapSpace> space_;
  std::unique_ptr<CheckpointFolder> folder_;
};

using Letters = std::vector<std::string>;

TEST_F(CheckpointFolderTest, ALaterOneTakesItsPlaceAndWritesWhatChanged) {
  EXPECT_EQ(Write("abc", "def"), 6u);
  EXPECT_EQ(Read(), (Letters{"abc", "def"}));
  EXPECT_EQ(Write("abc", "dXf"), 1u);
  Reopen();
  EXPECT_EQ(Read(), (Letters{"abc", "dXf"}));
  // Sessions that another server has had meanwhile have other numbers there.
  EXPECT_EQ(Write("abY", "dXf", 107), 1u);
  EXPECT_EQ(Read(), (Letters{"abY", "dXf"}));
  EXPECT_EQ(folder_->Manifests()->at(1).session(), 108u);
  // One session has ended.
  EXPECT_EQ(Write("abY", ""), 0u);
  EXPECT_EQ(Read(), (Letters{"abY"}));
  EXPECT_EQ(space_->free_bytes(), space_->bytes());
}

TEST_F(CheckpointFolderTest, WithoutACheckpointThereIsNothingToRead) {
  EXPECT_TRUE(absl::IsNotFound(ReadAll().status()));
  EXPECT_TRUE(absl::IsNotFound(folder_->Manifests().status()));
  const auto none = CheckpointFolder::Open(root_ / "other", false, space_.get());
  EXPECT_TRUE(absl::IsNotFound(none.status())) << none.status();
  EXPECT_FALSE(fs::exists(root_ / "other"));
}

TEST_F(CheckpointFolderTest, AFolderHasOneUserWhoAloneReachesIt) {
  EXPECT_THAT(CheckpointFolder::Open(dir_, true, space_.get()).status().message(),
              HasSubstr("another server uses"));
  folder_.reset();
  fs::permissions(dir_, fs::perms::others_read, fs::perm_options::add);
  EXPECT_THAT(CheckpointFolder::Open(dir_, true, space_.get()).status().message(),
              HasSubstr("mode 0700"));
}

TEST_F(CheckpointFolderTest, AServerThatIsKilledLeavesOneOfBoth) {
  Write("abc", "def");
  folder_.reset();
  // Amidst the next one.
  fs::create_directory(dir_ / "next");
  std::ofstream(dir_ / "next/garbage") << "garbage";
  Reopen();
  EXPECT_EQ(Read(), (Letters{"abc", "def"}));
  // Between the two renames.
  folder_.reset();
  fs::rename(dir_ / "sessions", dir_ / "former");
  fs::create_directory(dir_ / "next");
  Reopen();
  EXPECT_EQ(Read(), (Letters{"abc", "def"}));
  // Behind them.
  folder_.reset();
  fs::create_directory(dir_ / "former");
  Reopen();
  EXPECT_EQ(Read(), (Letters{"abc", "def"}));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), {}), 2);
}

TEST_F(CheckpointFolderTest, AFullDiskLeavesTheFormerOne) {
  Write("abc", "def");
  std::vector<SessionCut> cuts;
  cuts.push_back(Cut(7, "abX"));
  cuts.push_back(Cut(8, "YZU"));
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {2 * kGranule, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status full = folder_->Write(&cuts).status();
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_EQ(Read(), (Letters{"abc", "def"}));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), {}), 2);
  EXPECT_TRUE(folder_->Write(&cuts).ok());
  cuts.clear();
  EXPECT_EQ(Read(), (Letters{"abX", "YZU"}));
}

TEST_F(CheckpointFolderTest, OneBadSessionIsAnErrorForAll) {
  Write("abc", "def");
  std::ofstream(dir_ / "sessions/session-1/manifest", std::ios::trunc) << "garbage";
  EXPECT_FALSE(ReadAll().ok());
  EXPECT_FALSE(folder_->Manifests().ok());
  fs::remove_all(dir_ / "sessions/session-0");
  EXPECT_FALSE(ReadAll().ok());
  EXPECT_EQ(space_->free_bytes(), space_->bytes());
  // Another checkpoint is written whole.
  EXPECT_EQ(Write("abc", "def"), 6u);
}

}  // namespace
}  // namespace warpline::server
