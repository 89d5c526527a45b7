#include "server/hostlink/handover/command_window.h"

#include <sys/mman.h>

#include <cstdint>
#include <memory>

#include "gtest/gtest.h"

namespace warpline {
namespace {

class CommandWindowTest : public testing::Test {
 protected:
  CommandWindowTest() {
    auto journal = JournalFile::Create();
    EXPECT_TRUE(journal.ok()) << journal.status();
    journal_ = *std::move(journal);
    // As a worker maps it.
    void* const at =
        mmap(nullptr, kJournalHeadBytes, PROT_READ | PROT_WRITE, MAP_SHARED, journal_->fd(), 0);
    EXPECT_NE(at, MAP_FAILED);
    head_ = static_cast<JournalHead*>(at);
  }
  ~CommandWindowTest() override { munmap(head_, kJournalHeadBytes); }

  std::shared_ptr<JournalFile> journal_;
  JournalHead* head_ = nullptr;
};

TEST_F(CommandWindowTest, SoManyMayBeInFlight) {
  const CommandWindow window(10, journal_);
  EXPECT_TRUE(window.HasRoom(0, 10));
  EXPECT_FALSE(window.HasRoom(0, 11));
  EXPECT_FALSE(window.HasRoom(10, 1));
  head_->usage.commands_complete = 4;
  EXPECT_TRUE(window.HasRoom(10, 4));
  EXPECT_FALSE(window.HasRoom(10, 5));
}

TEST_F(CommandWindowTest, AWorkerThatCountsFalselyBringsNothingDown) {
  const CommandWindow window(10, journal_);
  head_->usage.commands_complete = ~uint64_t{0};
  EXPECT_TRUE(window.HasRoom(5, 10));
  EXPECT_FALSE(window.HasRoom(5, 11));
  head_->usage.commands_complete = 0;
  EXPECT_FALSE(window.HasRoom(~uint64_t{0}, 1));
  EXPECT_FALSE(window.HasRoom(3, ~uint64_t{0}));
}

}  // namespace
}  // namespace warpline
