#include "server/worker/continuity/journal.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/wire.h"

namespace warpline::worker {
namespace {

template <typename Command>
std::string Body(const Command& command, const std::string& tail = "") {
  return std::string(reinterpret_cast<const char*>(&command), sizeof(command)) + tail;
}

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    auto file = JournalFile::Create();
    EXPECT_TRUE(file.ok());
    file_ = *std::move(file);
    Reopen();
  }

  absl::Status TryOpen() {
    journal_.reset();
    auto journal = Journal::Open(UniqueFd(dup(file_->fd())));
    if (!journal.ok()) return journal.status();
    journal_ = *std::move(journal);
    return absl::OkStatus();
  }
  // Opens the journal as the next worker does.
  void Reopen() { EXPECT_TRUE(TryOpen().ok()); }

  std::vector<JournalEntry> Entries() {
    std::vector<JournalEntry> entries;
    journal_->ForEachOf([](CommandId) { return true; },
                        [&](const JournalEntry& entry) { entries.push_back(entry); });
    return entries;
  }
  std::vector<CommandId> Ids() {
    std::vector<CommandId> ids;
    for (const JournalEntry& entry : Entries()) ids.push_back(entry.id);
    return ids;
  }

  void LoadModule(uint64_t module, uint64_t image, const std::string& bytes) {
    const size_t half = bytes.size() / 2;
    EXPECT_TRUE(journal_->Note(CommandId::kImageData, Body(cmd::ImageData{image, bytes.size(), 0},
                                                           bytes.substr(0, half))));
    EXPECT_TRUE(
        journal_->Note(CommandId::kImageData,
                       Body(cmd::ImageData{image, bytes.size(), half}, bytes.substr(half))));
    EXPECT_TRUE(journal_->Note(CommandId::kModuleLoad, Body(cmd::ModuleLoad{module, image})));
  }

  // Overwrites bytes of the file.
  void Corrupt(uint64_t offset, const std::string& bytes) {
    EXPECT_EQ(pwrite(file_->fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes.size()));
  }

  std::unique_ptr<JournalFile> file_;
  std::unique_ptr<Journal> journal_;
};

TEST_F(JournalTest, EntriesOfSomeCommandsAreFoundByThemselves) {
  journal_->Note(CommandId::kStreamCreate, Body(cmd::StreamCreate{20, 1, 0}));
  LoadModule(30, 31, std::string(100'000, 'm'));
  journal_->Note(CommandId::kStreamCreate, Body(cmd::StreamCreate{21, 0, 0}));
  std::vector<std::string> bodies;
  journal_->ForEachOf([](CommandId id) { return id == CommandId::kStreamCreate; },
                      [&](const JournalEntry& entry) { bodies.push_back(entry.body); });
  EXPECT_EQ(bodies, (std::vector<std::string>{Body(cmd::StreamCreate{20, 1, 0}),
                                              Body(cmd::StreamCreate{21, 0, 0})}));
}

TEST_F(JournalTest, NextWorkerFindsWhatStillExistsInOrder) {
  journal_->Note(CommandId::kStreamCreate, Body(cmd::StreamCreate{20, 1, 0}));
  LoadModule(30, 31, std::string(100'000, 'm'));
  journal_->Note(CommandId::kKernelFind, Body(cmd::KernelFind{40, 30}, "kernel"));
  journal_->Note(CommandId::kStreamCreate, Body(cmd::StreamCreate{21, 0, 0}));
  journal_->Note(CommandId::kStreamDestroy, Body(cmd::StreamDestroy{20}));
  Reopen();
  EXPECT_EQ(Ids(), (std::vector<CommandId>{CommandId::kImageData, CommandId::kImageData,
                                           CommandId::kModuleLoad, CommandId::kKernelFind,
                                           CommandId::kStreamCreate}));
  const auto entries = Entries();
  EXPECT_EQ(entries[0].body.substr(sizeof(cmd::ImageData)), std::string(50'000, 'm'));
  EXPECT_EQ(entries[3].body.substr(sizeof(cmd::KernelFind)), "kernel");
}

TEST_F(JournalTest, ModuleTakesItsImageAndKernelsWithIt) {
  LoadModule(30, 31, std::string(1000, 'a'));
  LoadModule(50, 51, std::string(1000, 'b'));
  journal_->Note(CommandId::kKernelFind, Body(cmd::KernelFind{40, 30}, "kernel"));
  journal_->Note(CommandId::kKernelSetAttribute, Body(cmd::KernelSetAttribute{40, 8, 100}));
  Reopen();
  journal_->Note(CommandId::kModuleUnload, Body(cmd::ModuleUnload{30}));
  EXPECT_EQ(journal_->entries(), 3u);
  Reopen();
  EXPECT_EQ(Ids(), (std::vector<CommandId>{CommandId::kImageData, CommandId::kImageData,
                                           CommandId::kModuleLoad}));
}

TEST_F(JournalTest, LatestSettingCounts) {
  journal_->Note(CommandId::kKernelSetAttribute, Body(cmd::KernelSetAttribute{40, 8, 100}));
  journal_->Note(CommandId::kKernelSetAttribute, Body(cmd::KernelSetAttribute{40, 9, 1}));
  journal_->Note(CommandId::kKernelSetAttribute, Body(cmd::KernelSetAttribute{40, 8, 200}));
  Reopen();
  const auto entries = Entries();
  ASSERT_EQ(entries.size(), 2u);
  cmd::KernelSetAttribute last;
  std::memcpy(&last, entries[1].body.data(), sizeof(last));
  EXPECT_EQ(last.value, 200);
}

TEST_F(JournalTest, ValuesOfLaterRecordsHold) {
  journal_->Note(CommandId::kEventCreate, Body(cmd::EventCreate{60, 0, 0}));
  journal_->SetValue(JournalKind::kEvent, 60, 5, 500);
  journal_->SetValue(JournalKind::kEvent, 60, 4, 400);
  journal_->SetValue(JournalKind::kEvent, 61, 4, 1);
  Reopen();
  EXPECT_EQ(Entries().at(0).value, 500);
}

TEST_F(JournalTest, KeysOfOnesOwnAreReplacedAndForgotten) {
  const cmd::CopyToDevice copy = {1, 0x1000};
  journal_->NoteAs(CommandId::kCopyToDevice, 0x1000, 4, Body(copy, "aaaa"), 0);
  journal_->NoteAs(CommandId::kCopyToDevice, 0x1000, 4, Body(copy, "bbbb"), 0);
  journal_->NoteAs(CommandId::kCopyToDevice, 0x2000, 4, Body(copy, "cccc"), 0);
  Reopen();
  EXPECT_EQ(journal_->entries(), 2u);
  journal_->ForgetKeys(0x1000, 0x1000);
  EXPECT_EQ(Entries().at(0).body.substr(sizeof(copy)), "cccc");
}

TEST_F(JournalTest, SpaceAndSlotsAreUsedAgain) {
  const std::string image(3 << 20, 'x');
  // The entries hold far more than the journal does at a time.
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(journal_->HasRoom(image.size()));
    LoadModule(30, 31, image);
    journal_->Note(CommandId::kModuleUnload, Body(cmd::ModuleUnload{30}));
    if (i == 2) i = 2990;
  }
  EXPECT_EQ(journal_->entries(), 0u);
  Reopen();
  EXPECT_TRUE(Entries().empty());
}

// What the system keeps for the journal is what its owner is charged for, whatever came and went.
TEST_F(JournalTest, MemoryThatIsNotCountedIsGivenBack) {
  const auto resident = [this] {
    struct stat info;
    EXPECT_EQ(fstat(file_->fd(), &info), 0);
    return static_cast<uint64_t>(info.st_blocks) * 512;
  };
  // Parts of images, too small for it to be worth a call to give back each by itself.
  const auto add_parts = [this](uint64_t image) {
    const std::string part(60'000, 'x');
    for (uint64_t i = 0; i < 500; ++i) {
      ASSERT_TRUE(
          journal_->Note(CommandId::kImageData, Body(cmd::ImageData{image, 30'000'000, 0}, part)));
    }
  };
  add_parts(31);
  EXPECT_GE(resident(), 30'000'000u);
  EXPECT_LE(resident(), journal_->bytes() + 2 * kJournalHeadBytes);
  journal_->Forget(JournalKind::kImage, 31);
  EXPECT_LT(resident(), 1'000'000u);
  EXPECT_LT(journal_->bytes(), 1'000'000u);
  // One that stays in each piece keeps the piece, which then counts.
  add_parts(32);
  for (uint64_t i = 0; i < 500; ++i) {
    ASSERT_TRUE(journal_->Note(CommandId::kImageData,
                               Body(cmd::ImageData{100 + i, 1, 0}, std::string(100, 'y'))));
    ASSERT_TRUE(journal_->Note(CommandId::kImageData,
                               Body(cmd::ImageData{33, 1, 0}, std::string(60'000, 'z'))));
  }
  journal_->Forget(JournalKind::kImage, 32);
  journal_->Forget(JournalKind::kImage, 33);
  EXPECT_LE(resident(), journal_->bytes() + 2 * kJournalHeadBytes);
  Reopen();
  EXPECT_LE(resident(), journal_->bytes() + 2 * kJournalHeadBytes);
  for (uint64_t i = 0; i < 500; ++i) journal_->Forget(JournalKind::kImage, 100 + i);
  EXPECT_LT(resident(), 1'000'000u);
}

TEST_F(JournalTest, WhatAFormerWorkerWroteBesideItsEntriesIsGivenBack) {
  LoadModule(30, 31, std::string(1 << 20, 'x'));
  Corrupt(kJournalDataStart + (64 << 20), std::string(32 << 20, 'g'));
  Reopen();
  struct stat info;
  ASSERT_EQ(fstat(file_->fd(), &info), 0);
  EXPECT_LE(static_cast<uint64_t>(info.st_blocks) * 512, journal_->bytes() + 2 * kJournalHeadBytes);
  EXPECT_EQ(journal_->entries(), 3u);
}

TEST_F(JournalTest, WhatHadNoRoomTakesNone) {
  const std::string some(8, 'x');
  const std::string_view too_much(some.data(), kJournalDataBytes + 1);  // Nobody reads it.
  const size_t before = mallinfo2().uordblks;
  if (before == 0) GTEST_SKIP() << "this allocator does not tell what it has given";
  for (uint64_t key = 0; key < 10'000; ++key) {
    ASSERT_FALSE(journal_->NoteAs(CommandId::kCopyToDevice, key, 4, too_much, 0));
  }
  EXPECT_LT(mallinfo2().uordblks, before + 100'000);
}

TEST_F(JournalTest, FullIsAnErrorAndNothingElse) {
  EXPECT_FALSE(journal_->HasRoom(kJournalDataBytes + 1));
  EXPECT_TRUE(journal_->HasRoom(kJournalDataBytes));
  EXPECT_TRUE(journal_->HasRoom(8));
}

TEST_F(JournalTest, RetiredNumberDoesNotGoBack) {
  journal_->PublishRetired(10);
  journal_->PublishRetired(9);
  EXPECT_EQ(file_->retired_seq(), 10u);
  journal_->SetFlags(kJournalVariables);
  journal_->SetFlags(kJournalFaulted);
  EXPECT_EQ(file_->flags(), kJournalVariables | kJournalFaulted);
  journal_->SetFlags(kJournalObjects);
  journal_->ClearFlags(kJournalObjects);
  EXPECT_EQ(file_->flags(), kJournalVariables | kJournalFaulted);
}

TEST_F(JournalTest, EntriesThatDoNotCountAreSkipped) {
  journal_->Note(CommandId::kStreamCreate, Body(cmd::StreamCreate{20, 1, 0}));
  Corrupt(kJournalHeadBytes, std::string(8, '\0'));
  Reopen();
  EXPECT_TRUE(Entries().empty());
}

TEST_F(JournalTest, HostileJournalsAreRefused) {
  journal_->Note(CommandId::kKernelFind, Body(cmd::KernelFind{40, 30}, std::string(200, 'n')));
  journal_->Note(CommandId::kKernelFind, Body(cmd::KernelFind{41, 30}, std::string(200, 'n')));
  std::string slot(kJournalSlotBytes, '\0');
  ASSERT_EQ(pread(file_->fd(), slot.data(), slot.size(), kJournalHeadBytes),
            static_cast<ssize_t>(slot.size()));
  // Changes every byte of an entry in turn: the entry is taken or refused, and nothing crashes.
  for (size_t i = 0; i < 56; ++i) {
    for (const char byte : {'\x01', '\x7f', '\xff'}) {
      std::string bad = slot;
      bad[i] = byte;
      Corrupt(kJournalHeadBytes, bad);
      // Sizes of gigabytes within the journal are skipped, because they would only take long to
      // copy.
      const bool huge = i == 50 || i == 51;
      if (TryOpen().ok() && !huge) Entries();
    }
  }
  std::string beyond = slot;
  const uint64_t offset = kJournalDataBytes - 64;
  std::memcpy(beyond.data() + 32, &offset, sizeof(offset));
  Corrupt(kJournalHeadBytes, beyond);
  EXPECT_EQ(TryOpen().code(), absl::StatusCode::kInvalidArgument);
  // Makes two entries that lie on the same bytes.
  std::string overlap = slot;
  const uint64_t second = 256;
  std::memcpy(overlap.data() + 32, &second, sizeof(second));
  Corrupt(kJournalHeadBytes, overlap);
  EXPECT_EQ(TryOpen().code(), absl::StatusCode::kInvalidArgument);
  Corrupt(kJournalHeadBytes, slot);
  Reopen();
  EXPECT_EQ(Entries().size(), 2u);
  Corrupt(12, std::string(4, '\xff'));  // Slots in use.
  EXPECT_EQ(TryOpen().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(JournalTest, OtherDescriptorsAreRefused) {
  const UniqueFd other(memfd_create("other", 0));
  EXPECT_FALSE(Journal::Open(UniqueFd(dup(other.get()))).ok());
}

TEST_F(JournalTest, AGraphTakesItsImageWithIt) {
  const std::string definition(100, 'g');
  EXPECT_TRUE(journal_->Note(CommandId::kImageData,
                             Body(cmd::ImageData{7, definition.size(), 0}, definition)));
  EXPECT_TRUE(journal_->Note(CommandId::kGraphCreate, Body(cmd::GraphCreate{8, 7})));
  Reopen();
  EXPECT_EQ(Ids(), (std::vector<CommandId>{CommandId::kImageData, CommandId::kGraphCreate}));
  EXPECT_TRUE(journal_->Note(CommandId::kGraphDestroy, Body(cmd::GraphDestroy{8})));
  EXPECT_EQ(Ids(), std::vector<CommandId>());
}

}  // namespace
}  // namespace warpline::worker
