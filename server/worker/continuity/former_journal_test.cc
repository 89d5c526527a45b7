// The journal of a worker of the version before is taken over by this one, as when workers are
// replaced after an upgrade (docs/versions.md). tests/versions/record.py recorded it.
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/commands.h"
#include "server/hostlink/handover/journal_file.h"
#include "server/worker/continuity/journal.h"

namespace warpline::worker {
namespace {

// Writes the recorded bytes where they were. Returns how many.
size_t Restore(int fd) {
  const char* const root = std::getenv("TEST_SRCDIR");
  std::ifstream file(
      absl::StrCat(root == nullptr ? "." : root, "/warpline/tests/versions/former/journal.txt"));
  size_t written = 0;
  off_t offset = 0;
  for (std::string hex; file >> offset >> hex;) {
    const std::string bytes = absl::HexStringToBytes(hex);
    EXPECT_EQ(pwrite(fd, bytes.data(), bytes.size(), offset), static_cast<ssize_t>(bytes.size()));
    written += bytes.size();
  }
  return written;
}

TEST(FormerJournalTest, IsTakenOverWhole) {
  const auto file = JournalFile::Create();
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_GT(Restore((*file)->fd()), 1000u);
  EXPECT_GT((*file)->retired_seq(), 0u);
  EXPECT_EQ((*file)->flags(), 0u);
  EXPECT_GT((*file)->commands_complete(), 0u);
  auto journal = Journal::Open(UniqueFd(dup((*file)->fd())));
  ASSERT_TRUE(journal.ok()) << journal.status();
  std::map<CommandId, int> found;
  uint64_t image_bytes = 0;
  (*journal)->ForEachOf(
      [](CommandId) { return true; },
      [&](const JournalEntry& entry) {
        ++found[entry.id];
        EXPECT_GE(entry.body.size(), FindCommand(entry.id).body_bytes);
        if (entry.id == CommandId::kImageData || entry.id == CommandId::kImageZstd) {
          image_bytes += entry.body.size();
        }
      });
  // long_program has three streams, two events, and one module with kernels and a variable.
  EXPECT_EQ(found[CommandId::kStreamCreate], 3);
  EXPECT_EQ(found[CommandId::kEventCreate], 2);
  EXPECT_EQ(found[CommandId::kModuleLoad], 1);
  EXPECT_GT(found[CommandId::kKernelFind], 0);
  EXPECT_GT(image_bytes, 1000u);
  EXPECT_EQ((*journal)->entries(), [&] {
    size_t all = 0;
    for (const auto& [id, count] : found) all += static_cast<size_t>(count);
    return all;
  }());
}

}  // namespace
}  // namespace warpline::worker
