#include "server/gpu_server/saved/saved_sessions.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sealed_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/gpu_server/testing/away_letters.h"
#include "server/hostlink/handover/journal_file.h"
#include "server/hostlink/handover/variable_file.h"

namespace warpline::server {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uint64_t kGranule = SwapSpace::kGranule;
constexpr uint64_t kArena = uint64_t{1} << 40;

std::string Contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void SetContents(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Returns the manifest's entry for a file.
warpline_internal::SavedFile* FileOf(warpline_internal::SavedSession* manifest,
                                     const std::string& name) {
  for (auto& file : *manifest->mutable_file()) {
    if (file.name() == name) return &file;
  }
  return manifest->add_file();
}

class SavedSessionsTest : public testing::Test {
 protected:
  SavedSessionsTest() {
    const char* const tmp = getenv("TEST_TMPDIR");
    std::string path = absl::StrCat(tmp == nullptr ? "/tmp" : tmp, "/saved-XXXXXX");
    root_ = mkdtemp(path.data());
    dir_ = root_ / "sessions";
    space_ = *SwapSpace::Open(16 * kGranule, 1);
    Reopen();
  }
  ~SavedSessionsTest() override {
    saved_.reset();
    fs::remove_all(root_);
  }

  void Reopen() {
    saved_.reset();
    auto opened = SavedSessions::Open(dir_, space_.get());
    ASSERT_TRUE(opened.ok()) << opened.status();
    saved_ = *std::move(opened);
  }

  // A session with three granules and a handle with one. The second granule is zeros.
  SessionCut Cut(uint64_t session) {
    SessionCut cut;
    cut.manifest.set_session(session);
    cut.manifest.set_secret(absl::StrCat("secret of one: ", session));
    cut.manifest.set_done_commands(1234);
    auto* const kept = cut.manifest.add_kept();
    kept->set_kind(18);
    kept->set_payload("replies");
    auto* const range = cut.manifest.add_range();
    range->set_va(kArena);
    range->set_bytes(3 * kGranule);
    auto* const held = cut.manifest.add_range();
    held->set_handle(7);
    held->set_bytes(kGranule);
    cut.journal = *JournalFile::CreateMemory();
    Put(cut.journal.get(), "head", 0);
    Put(cut.journal.get(), "data", kJournalBytes - 4);
    cut.variables = *CreateVariableFile();
    Put(cut.variables.get(), "variables", 1 << 20);
    cut.away = std::make_shared<AwayMemory>();
    cut.away->used = {true, false, true, true};
    cut.away->place = *space_->Take(3 * kGranule);
    FillWithLetters(*space_, *cut.away, "abc");
    cut.staging.push_back(*NewSealedMemory("staging", 8192));
    Put(cut.staging.back().get(), "staged", 4096);
    cut.manifest.add_staging()->set_bytes(8192);
    return cut;
  }

  void Write(uint64_t session) {
    SessionCut cut = Cut(session);
    const absl::Status written = saved_->Write(&cut);
    ASSERT_TRUE(written.ok()) << written;
  }
  fs::path File(uint64_t session, const std::string& name) const {
    return dir_ / absl::StrCat("session-", session) / name;
  }
  // Changes the manifest of session 7, which is otherwise right.
  void Forge(const std::function<void(warpline_internal::SavedSession*)>& change) {
    warpline_internal::SavedSession manifest;
    ASSERT_TRUE(manifest.ParseFromString(Contents(File(7, "manifest"))));
    change(&manifest);
    SetContents(File(7, "manifest"), manifest.SerializeAsString());
  }

  fs::path root_;
  fs::path dir_;
  std::unique_ptr<SwapSpace> space_;
  std::unique_ptr<SavedSessions> saved_;
};

TEST_F(SavedSessionsTest, WhatIsReadIsWhatWasWritten) {
  Write(7);
  EXPECT_EQ(space_->free_bytes(), space_->bytes());
  Reopen();
  std::vector<std::string> unreadable;
  EXPECT_EQ(saved_->Find(&unreadable), (std::map<uint64_t, std::string>{{7, "secret of one: 7"}}));
  EXPECT_TRUE(unreadable.empty());
  auto cut = saved_->Read(7);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->manifest.done_commands(), 1234u);
  EXPECT_EQ(cut->manifest.kept(0).payload(), "replies");
  EXPECT_EQ(Get(cut->journal.get(), 4, 0), "head");
  EXPECT_EQ(Get(cut->journal.get(), 4, kJournalBytes - 4), "data");
  EXPECT_EQ(Get(cut->journal.get(), 4, 1 << 20), std::string(4, '\0'));
  EXPECT_EQ(Get(cut->variables.get(), 9, 1 << 20), "variables");
  ASSERT_EQ(cut->staging.size(), 1u);
  EXPECT_EQ(Get(cut->staging[0].get(), 6, 4096), "staged");
  EXPECT_EQ(cut->away->used, (std::vector<bool>{true, false, true, true}));
  EXPECT_EQ(LettersOf(*space_, *cut->away), "abc");
}

TEST_F(SavedSessionsTest, WhatIsWrittenIsForThisUserAlone) {
  Write(7);
  for (const auto& entry : fs::recursive_directory_iterator(dir_)) {
    struct stat info;
    ASSERT_EQ(lstat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 077, 0u) << entry.path();
  }
}

TEST_F(SavedSessionsTest, ASessionIsTakenOverOnce) {
  Write(7);
  ASSERT_TRUE(saved_->Take(7).ok());
  EXPECT_TRUE(absl::IsNotFound(saved_->Read(7).status()));
  EXPECT_TRUE(absl::IsNotFound(saved_->Take(7)));
  ASSERT_TRUE(saved_->PutBack(7).ok());
  EXPECT_TRUE(saved_->Read(7).ok());
  ASSERT_TRUE(saved_->Take(7).ok());
  saved_->Forget(7);
  EXPECT_TRUE(absl::IsNotFound(saved_->PutBack(7)));
}

TEST_F(SavedSessionsTest, WhatAKilledServerLeftHalfDoneIsGone) {
  Write(7);
  Write(8);
  ASSERT_TRUE(saved_->Take(7).ok());
  fs::rename(dir_ / "session-8", dir_ / "partial-8");
  Reopen();
  std::vector<std::string> unreadable;
  EXPECT_TRUE(saved_->Find(&unreadable).empty());
  EXPECT_TRUE(unreadable.empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), {}), 1);  // The lock.
}

TEST_F(SavedSessionsTest, AFolderHasOneServer) {
  EXPECT_TRUE(absl::IsFailedPrecondition(SavedSessions::Open(dir_, space_.get()).status()));
}

TEST_F(SavedSessionsTest, AFolderThatOthersReachIsRefused) {
  saved_.reset();
  for (const mode_t mode : {0755, 0770, 0701}) {
    chmod(dir_.c_str(), mode);
    const absl::Status refused = SavedSessions::Open(dir_, space_.get()).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << mode;
    EXPECT_THAT(refused.message(), HasSubstr("mode 0700"));
  }
  EXPECT_TRUE(absl::IsNotFound(SavedSessions::Open(root_ / "no/folder", nullptr).status()));
  SetContents(root_ / "file", "");
  EXPECT_FALSE(SavedSessions::Open(root_ / "file", nullptr).ok());
}

TEST_F(SavedSessionsTest, EveryByteIsLookedAt) {
  for (const char* name : {"memory-1", "journal", "variables", "staging-0"}) {
    Write(7);
    const std::string right = Contents(File(7, name));
    for (const size_t at : {size_t{0}, right.size() / 2, right.size() - 1}) {
      std::string wrong = right;
      wrong[at] = static_cast<char>(wrong[at] ^ 1);
      SetContents(File(7, name), wrong);
      const absl::Status refused = saved_->Read(7).status();
      EXPECT_TRUE(absl::IsDataLoss(refused) || absl::IsInvalidArgument(refused)) << name << refused;
    }
    SetContents(File(7, name), right.substr(1));
    EXPECT_TRUE(absl::IsDataLoss(saved_->Read(7).status())) << name;
    SetContents(File(7, name), right + "x");
    EXPECT_TRUE(absl::IsDataLoss(saved_->Read(7).status())) << name;
    fs::remove(File(7, name));
    EXPECT_TRUE(absl::IsNotFound(saved_->Read(7).status())) << name;
    fs::create_symlink("/dev/zero", File(7, name));
    EXPECT_FALSE(saved_->Read(7).ok()) << name;
    fs::remove_all(dir_ / "session-7");
  }
  EXPECT_EQ(space_->free_bytes(), space_->bytes());
}

TEST_F(SavedSessionsTest, AFolderKeepsItsNames) {
  EXPECT_EQ(saved_->NameOf("host", "warpline-1"), "warpline-1");
  EXPECT_EQ(saved_->NameOf("host", "warpline-2"), "warpline-1");
  EXPECT_EQ(saved_->NameOf("other", "warpline-3"), "warpline-3");
  Reopen();
  EXPECT_EQ(saved_->NameOf("host", "warpline-4"), "warpline-1");
  for (const std::string& broken : {std::string(), std::string("a name"), std::string(81, 'x'),
                                    std::string("../x"), std::string("a\0b", 3)}) {
    SetContents(dir_ / "host.name", broken);
    EXPECT_EQ(saved_->NameOf("host", "warpline-5"), "warpline-5") << broken;
  }
}

TEST_F(SavedSessionsTest, ForgedManifestsAreRefused) {
  using Manifest = warpline_internal::SavedSession;
  const std::pair<const char*, std::function<void(Manifest*)>> forgeries[] = {
      {"another session", [](Manifest* m) { m->set_session(8); }},
      {"no format", [](Manifest* m) { m->set_format(0); }},
      {"a newer format", [](Manifest* m) { m->set_format(kSavedSessionFormat + 1); }},
      {"half a granule", [](Manifest* m) { m->mutable_range(0)->set_bytes(3 * kGranule - 1); }},
      {"no bytes", [](Manifest* m) { m->mutable_range(0)->set_bytes(0); }},
      {"a sum that overflows",
       [](Manifest* m) {
         for (int i = 0; i < 3; ++i) m->add_range()->set_bytes(~uint64_t{0} / kGranule * kGranule);
       }},
      {"more granules", [](Manifest* m) { m->add_range()->set_bytes(9 * kGranule); }},
      {"more used", [](Manifest* m) { m->set_used("\xff"); }},
      {"a file elsewhere", [](Manifest* m) { FileOf(m, "journal")->set_name("../../etc/passwd"); }},
      {"no files", [](Manifest* m) { m->clear_file(); }},
      {"variables without a file", [](Manifest* m) { FileOf(m, "variables")->set_name("others"); }},
      {"no secret", [](Manifest* m) { m->clear_secret(); }},
      {"staging without a file", [](Manifest* m) { m->add_staging()->set_bytes(4096); }},
      {"staging without an end",
       [](Manifest* m) { m->mutable_staging(0)->set_bytes(~uint64_t{0}); }},
      {"no hash", [](Manifest* m) { FileOf(m, "journal")->clear_sha256(); }},
      {"a larger file", [](Manifest* m) { FileOf(m, "journal")->set_bytes(~uint64_t{0}); }},
      {"no hashes of memory", [](Manifest* m) { m->clear_block_sha256(); }},
      {"a hash too few", [](Manifest* m) { m->mutable_block_sha256()->pop_back(); }},
      {"memory nowhere", [](Manifest* m) { m->clear_block_at(); }},
      {"memory behind its file", [](Manifest* m) { m->set_block_at(0, 3); }},
      {"memory that overflows", [](Manifest* m) { m->set_block_at(0, ~uint64_t{0}); }},
      {"memory in no file", [](Manifest* m) { m->set_block_file(0, 1); }},
      {"memory elsewhere",
       [](Manifest* m) { m->mutable_memory_file(0)->set_name("../session-8/memory-1"); }},
      {"memory in the journal",
       [](Manifest* m) { m->mutable_memory_file(0)->set_name("journal"); }},
      {"memory of another size",
       [](Manifest* m) {
         m->mutable_memory_file(0)->set_bytes(~uint64_t{0} / kGranule * kGranule);
       }},
      {"parts of memory exchanged",
       [](Manifest* m) {
         const uint64_t first = m->block_at(0);
         m->set_block_at(0, m->block_at(1));
         m->set_block_at(1, first);
       }},
  };
  for (const auto& [what, change] : forgeries) {
    Write(7);
    Forge(change);
    EXPECT_FALSE(saved_->Read(7).ok()) << what;
    fs::remove_all(dir_ / "session-7");
  }
  EXPECT_EQ(space_->free_bytes(), space_->bytes());
}

TEST_F(SavedSessionsTest, ExtentsStayInTheirMemory) {
  struct Extent {
    uint64_t offset;
    uint64_t bytes;
  };
  for (const Extent extent : {Extent{kJournalBytes - 1, 2}, Extent{~uint64_t{0}, 2},
                              Extent{4096, ~uint64_t{0}}, Extent{0, 1000}}) {
    Write(7);
    std::string bytes(reinterpret_cast<const char*>(&extent), sizeof(extent));
    bytes += "xx";
    SetContents(File(7, "journal"), bytes);
    Forge(
        [&](warpline_internal::SavedSession* m) { FileOf(m, "journal")->set_bytes(bytes.size()); });
    EXPECT_TRUE(absl::IsInvalidArgument(saved_->Read(7).status())) << extent.offset;
    fs::remove_all(dir_ / "session-7");
  }
}

TEST_F(SavedSessionsTest, UnreadableSessionsAreLeftAlone) {
  Write(7);
  Write(8);
  SetContents(File(7, "manifest"), "garbage");
  fs::create_directory(dir_ / "session-9");
  fs::create_directory(dir_ / "session-07");  // No name of ours.
  std::vector<std::string> unreadable;
  EXPECT_EQ(saved_->Find(&unreadable).size(), 1u);
  EXPECT_EQ(unreadable.size(), 2u);
  EXPECT_TRUE(fs::exists(File(7, "manifest")));
}

TEST_F(SavedSessionsTest, ANumberThatIsTakenIsNeverGivenAgain) {
  EXPECT_EQ(saved_->LastNumber(), 0u);
  Write(7);
  SetContents(File(7, "manifest"), "garbage");
  fs::create_directory(dir_ / "session-18446744073709551615");
  EXPECT_EQ(saved_->LastNumber(), 7u);
  // Another session of that number does not take its place.
  SessionCut cut = Cut(7);
  EXPECT_FALSE(saved_->Write(&cut).ok());
  EXPECT_EQ(Contents(File(7, "manifest")), "garbage");
}

TEST_F(SavedSessionsTest, MemoryThatDoesNotFitIsRefused) {
  Write(7);
  const auto others = *space_->Take(15 * kGranule);
  const absl::Status refused = saved_->Read(7).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("--swap_host"));
}

TEST_F(SavedSessionsTest, AFullDiskLeavesNothing) {
  SessionCut cut = Cut(7);
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {kGranule, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status full = saved_->Write(&cut);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), {}), 1);  // The lock.
  // It can be tried again.
  EXPECT_TRUE(saved_->Write(&cut).ok());
}

}  // namespace
}  // namespace warpline::server
