#include "audit/audit_writer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "audit/chain.h"
#include "audit/files.h"
#include "common/log/log_capture.h"
#include "gtest/gtest.h"
#include "transport/testing/temp_folder.h"

namespace warpline::audit {
namespace {

class AuditWriterTest : public ::testing::Test {
 protected:
  std::unique_ptr<AuditWriter> Open(uint64_t file_bytes = 1 << 20, uint64_t files = 64) {
    auto writer = AuditWriter::Open({.dir = dir_, .file_bytes = file_bytes, .files = files});
    EXPECT_TRUE(writer.ok()) << writer.status();
    return writer.ok() ? *std::move(writer) : nullptr;
  }

  // Appends records of sessions 1 to `count`, and returns the anchor behind them.
  Anchor Write(uint64_t count, uint64_t file_bytes = 1 << 20, uint64_t files = 64) {
    const auto writer = Open(file_bytes, files);
    for (uint64_t i = 1; i <= count; ++i) {
      EXPECT_TRUE(writer->Append({.event = Event::kSessionOpened, .session = i}).ok());
    }
    return writer->head();
  }

  std::string Path(uint64_t number) { return absl::StrCat(dir_, "/", FileName(number)); }

  std::string Read(uint64_t number) {
    std::ifstream file(Path(number));
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void Replace(uint64_t number, const std::string& text) { std::ofstream(Path(number)) << text; }

  Verdict Check(const std::optional<Anchor>& anchor = std::nullopt) {
    auto verdict = Verify(dir_, anchor);
    EXPECT_TRUE(verdict.ok()) << verdict.status();
    return verdict.ok() ? *std::move(verdict) : Verdict();
  }
  // The first fault; empty for a record that is whole.
  std::string FirstFault(const std::optional<Anchor>& anchor = std::nullopt) {
    const Verdict verdict = Check(anchor);
    return verdict.faults.empty() ? "" : verdict.faults.front().Text();
  }

  LogCapture log_;
  testing::TempFolder temp_;
  const std::string dir_ = temp_.path() + "/made/audit";
};

TEST_F(AuditWriterTest, AChainIsWhole) {
  const Anchor anchor = Write(20);
  EXPECT_EQ(FirstFault(), "");
  EXPECT_EQ(FirstFault(anchor), "");
  EXPECT_EQ(FirstFault(Anchor{0, anchor.hash}), "");
  EXPECT_EQ(Check().lines, 21u);
  struct stat status = {};
  ASSERT_EQ(stat(Path(1).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(AuditWriterTest, EveryChangedByteIsFound) {
  const Anchor anchor = Write(4);
  const std::string good = Read(1);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    Replace(1, bad);
    EXPECT_NE(FirstFault(anchor), "") << i;
  }
  // The line after a changed one shows it without an anchor.
  std::string bad = good;
  bad.replace(bad.find("\"session\":2"), 11, "\"session\":9");
  Replace(1, bad);
  EXPECT_EQ(
      FirstFault(),
      "audit-00000001.jsonl:4: it does not follow from the line before it: one of the two was "
      "changed");
}

TEST_F(AuditWriterTest, ARemovedAndAnInsertedLineAreFound) {
  Write(6);
  const std::string good = Read(1);
  std::vector<std::string> lines = absl::StrSplit(good, '\n');
  const std::string removed = lines[3];
  lines.erase(lines.begin() + 3);
  Replace(1, absl::StrJoin(lines, "\n"));
  EXPECT_EQ(FirstFault(),
            "audit-00000001.jsonl:4: lines are missing before it: it is record 5 after 3");
  lines.insert(lines.begin() + 3, {removed, removed});
  Replace(1, absl::StrJoin(lines, "\n"));
  EXPECT_EQ(FirstFault(), "audit-00000001.jsonl:5: it is record 4 after 4");
}

TEST_F(AuditWriterTest, ARemovedFileIsFound) {
  Write(30, /*file_bytes=*/1000);
  ASSERT_EQ(FirstFault(), "");
  ASSERT_GT(Check().files, 4u);
  std::filesystem::rename(Path(3), temp_.path() + "/three");
  EXPECT_EQ(FirstFault(), "audit-00000004.jsonl: the file before it is missing");
  std::filesystem::rename(temp_.path() + "/three", Path(3));
  std::filesystem::remove(Path(1));
  EXPECT_EQ(FirstFault(), "audit-00000002.jsonl: the files before it are missing");
}

TEST_F(AuditWriterTest, ACutTailIsFoundWithAnAnchorAlone) {
  const Anchor anchor = Write(6);
  const std::string good = Read(1);
  std::vector<std::string> lines = absl::StrSplit(good, '\n');
  lines.resize(5);
  Replace(1, absl::StrJoin(lines, "\n") + "\n");
  EXPECT_EQ(FirstFault(), "");
  EXPECT_EQ(FirstFault(anchor),
            "audit-00000001.jsonl: the record ends at 5, and 7 was anchored: its end was cut off");
  EXPECT_TRUE(absl::StrContains(FirstFault(Anchor{0, anchor.hash}), "no record has the anchor's"));
  // The server went on after the cut.
  Write(3);
  EXPECT_EQ(FirstFault(), "");
  EXPECT_EQ(FirstFault(anchor), "audit-00000001.jsonl: record 7 is not the one that was anchored");
}

TEST_F(AuditWriterTest, FilesFollowEachOtherAndTheOldestGo) {
  const Anchor first = Write(5, /*file_bytes=*/1000, /*files=*/3);
  const Anchor last = Write(200, /*file_bytes=*/1000, /*files=*/3);
  const Verdict verdict = Check(last);
  EXPECT_EQ(verdict.files, 3u);
  EXPECT_TRUE(verdict.faults.empty()) << verdict.faults.front().Text();
  ASSERT_EQ(verdict.notes.size(), 1u);
  EXPECT_TRUE(absl::StrContains(verdict.notes[0], "were removed by the server"));
  const auto files = ListFiles(dir_);
  for (const uint64_t number : *files) EXPECT_LT(Read(number).size(), 2500u);
  EXPECT_TRUE(absl::StrContains(FirstFault(first), "is older than what is kept"));
  // One more that is removed by somebody else is missed.
  std::filesystem::remove(Path(files->front()));
  EXPECT_TRUE(absl::StrContains(FirstFault(), "the files before it are missing")) << FirstFault();
}

TEST_F(AuditWriterTest, ARestartGoesOn) {
  Write(3);
  const Anchor between = Write(3);
  const Anchor last = Write(3);
  EXPECT_EQ(last.seq, 10u);
  EXPECT_EQ(Check(between).files, 1u);
  EXPECT_EQ(FirstFault(between), "");
  EXPECT_EQ(FirstFault(last), "");
}

TEST_F(AuditWriterTest, ATamperedTailIsSaidAndBeginsANewChainThatNamesIt) {
  Write(6);
  std::string text = Read(1);
  text.replace(text.find("\"session\":3"), 11, "\"session\":9");
  Replace(1, text);
  Write(2);
  EXPECT_EQ(log_.LinesWith("the record was changed, a new chain begins").size(), 1u);
  const Verdict verdict = Check();
  ASSERT_EQ(verdict.faults.size(), 2u);
  EXPECT_EQ(
      verdict.faults[0].Text(),
      "audit-00000001.jsonl:5: it does not follow from the line before it: one of the two was "
      "changed");
  EXPECT_TRUE(absl::StrContains(
      verdict.faults[1].Text(),
      "audit-00000002.jsonl:1: the chain was begun anew: audit-00000001.jsonl:5: "))
      << verdict.faults[1].Text();
  // Another start takes the new chain for what it is.
  Write(2);
  EXPECT_EQ(log_.LinesWith("a new chain begins").size(), 1u);
  EXPECT_EQ(Check().files, 2u);
  EXPECT_EQ(Check().faults.size(), 2u);
}

TEST_F(AuditWriterTest, TheBeginningOfALineAsAfterALossOfPowerIsNoBreak) {
  Write(4);
  const std::string good = Read(1);
  Replace(1, good.substr(0, good.size() - 20));
  EXPECT_EQ(FirstFault(), "");
  EXPECT_EQ(Check().notes.size(), 1u);
  Write(4);
  EXPECT_EQ(FirstFault(), "");
  EXPECT_EQ(Check().files, 2u);
  // But no more may be cut off than the record says.
  Replace(1, good.substr(0, good.size() - 21));
  EXPECT_TRUE(absl::StrContains(FirstFault(), "does not end in a whole line")) << FirstFault();
}

TEST_F(AuditWriterTest, AFileThatWasJustBegunIsTaken) {
  Write(4);
  Replace(2, "");
  Write(4);
  EXPECT_EQ(FirstFault(), "");
  EXPECT_EQ(Check().files, 2u);
  Replace(3, "{\"seq\":");
  Write(4);
  EXPECT_EQ(FirstFault(), "");
  EXPECT_EQ(Check().files, 4u);
}

TEST_F(AuditWriterTest, AFolderIsOneServersAndWritableByNoOther) {
  const auto first = Open();
  EXPECT_TRUE(absl::IsFailedPrecondition(AuditWriter::Open({.dir = dir_}).status()));
  const std::string open = temp_.path() + "/open";
  ASSERT_EQ(mkdir(open.c_str(), 0700), 0);
  ASSERT_EQ(chmod(open.c_str(), 0777), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(AuditWriter::Open({.dir = open}).status()));
}

TEST_F(AuditWriterTest, GarbageIsNoRecordAndNoTrouble) {
  Write(2);
  Replace(1, std::string(300'000, 'x') + "\n\n{}\n" + std::string(10, '\0'));
  EXPECT_EQ(FirstFault(), "audit-00000001.jsonl:1: it is not a record");
  Write(2);
  EXPECT_EQ(Check().files, 2u);
  EXPECT_TRUE(absl::IsNotFound(Verify(temp_.path() + "/nothing", std::nullopt).status()));
}

}  // namespace
}  // namespace warpline::audit
