#include "server/gpu_server/memory/pager.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/log/log.h"
#include "common/sealed_memory.h"
#include "gtest/gtest.h"

namespace warpline::server {
namespace {

constexpr uint64_t kGranule = SwapSpace::kGranule;

class PagerTest : public testing::Test {
 protected:
  PagerTest() {
    SetLogLevel(LogLevel::kError);
    options_.program.path = absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"),
                                         "/server/keeper/fake_keeper");
    options_.program.args = {"--total_mib=256"};
    auto space = SwapSpace::Open(16 * kGranule, 2);
    EXPECT_TRUE(space.ok()) << space.status();
    space_ = *std::move(space);
    pager_ = std::make_unique<Pager>(options_, space_.get());
  }

  // Chunks of so many granules. Each granule begins with its text, and an empty one is of zeros.
  Pager::Chunks MakeChunks(const std::vector<std::vector<std::string>>& texts) {
    auto chunks = std::make_shared<std::vector<Chunk>>();
    for (const auto& granules : texts) {
      auto fd = NewSealedMemory("chunk", granules.size() * kGranule);
      EXPECT_TRUE(fd.ok()) << fd.status();
      for (size_t i = 0; i < granules.size(); ++i) {
        const std::string& text = granules[i];
        EXPECT_EQ(pwrite(fd->get(), text.data(), text.size(), static_cast<off_t>(i * kGranule)),
                  static_cast<ssize_t>(text.size()));
      }
      chunks->push_back({granules.size() * kGranule, *std::move(fd)});
    }
    return chunks;
  }

  // The first bytes of each granule.
  std::vector<std::string> Read(const std::vector<Chunk>& chunks) {
    std::vector<std::string> texts;
    for (const Chunk& chunk : chunks) {
      for (uint64_t at = 0; at < chunk.bytes; at += kGranule) {
        char text[5] = {};
        EXPECT_EQ(pread(chunk.fd.get(), text, 4, static_cast<off_t>(at)), 4);
        texts.emplace_back(text);
      }
    }
    return texts;
  }

  absl::Status Out(const Pager::Chunks& chunks, const std::shared_ptr<AwayMemory>& away) {
    absl::Notification done;
    absl::Status result;
    pager_->MoveOut(chunks, away, [&](absl::Status status) {
      result = std::move(status);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }
  absl::Status In(const Pager::Chunks& chunks, const std::shared_ptr<AwayMemory>& away) {
    absl::Notification done;
    absl::Status result;
    pager_->MoveIn(chunks, away, [&](absl::Status status) {
      result = std::move(status);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  KeeperOptions options_;
  std::unique_ptr<SwapSpace> space_;
  std::unique_ptr<Pager> pager_;
};

using Texts = std::vector<std::string>;

TEST_F(PagerTest, WhatGoesComesBackIntoChunksOfOtherSizes) {
  const auto away = std::make_shared<AwayMemory>();
  ASSERT_TRUE(Out(MakeChunks({{"one", "", "two"}, {"six"}, {"", "ten"}}), away).ok());
  EXPECT_EQ(away->bytes(), 6 * kGranule);
  EXPECT_EQ(away->held_bytes(), 4 * kGranule);
  EXPECT_EQ(space_->free_bytes(), 12 * kGranule);
  const auto chunks = MakeChunks({{""}, {"", "", "", ""}, {""}});
  ASSERT_TRUE(In(chunks, away).ok());
  EXPECT_EQ(Read(*chunks), Texts({"one", "", "two", "six", "", "ten"}));
}

TEST_F(PagerTest, TheProcessMayBeStartedAhead) {
  pager_->Start();
  const auto away = std::make_shared<AwayMemory>();
  ASSERT_TRUE(Out(MakeChunks({{"one"}}), away).ok());
  EXPECT_GT(pager_->pid(), 0);
}

TEST_F(PagerTest, MemoryOfSeveralIsKeptApart) {
  const auto one = std::make_shared<AwayMemory>();
  const auto two = std::make_shared<AwayMemory>();
  ASSERT_TRUE(Out(MakeChunks({{"a", "b"}}), one).ok());
  ASSERT_TRUE(Out(MakeChunks({{"c", "d"}}), two).ok());
  const auto chunks = MakeChunks({{"", ""}});
  ASSERT_TRUE(In(chunks, one).ok());
  EXPECT_EQ(Read(*chunks), Texts({"a", "b"}));
  const auto others = MakeChunks({{"", ""}});
  ASSERT_TRUE(In(others, two).ok());
  EXPECT_EQ(Read(*others), Texts({"c", "d"}));
}

TEST_F(PagerTest, WhatDoesNotFitStays) {
  const auto away = std::make_shared<AwayMemory>();
  ASSERT_TRUE(Out(MakeChunks({Texts(10, "x")}), away).ok());
  const auto chunks = MakeChunks({Texts(10, "y")});
  const auto more = std::make_shared<AwayMemory>();
  EXPECT_TRUE(absl::IsResourceExhausted(Out(chunks, more)));
  EXPECT_EQ(Read(*chunks), Texts(10, "y"));
  EXPECT_EQ(space_->free_bytes(), 6 * kGranule);
}

TEST_F(PagerTest, AProcessThatDiesLosesNothing) {
  const auto away = std::make_shared<AwayMemory>();
  ASSERT_TRUE(Out(MakeChunks({{"one", "two"}}), away).ok());
  const pid_t first = pager_->pid();
  ASSERT_GT(first, 0);
  ASSERT_EQ(kill(first, SIGKILL), 0);
  const auto chunks = MakeChunks({{"", ""}});
  ASSERT_TRUE(In(chunks, away).ok());
  EXPECT_EQ(Read(*chunks), Texts({"one", "two"}));
  EXPECT_NE(pager_->pid(), first);
}

TEST_F(PagerTest, AProcessThatDiesAgainAndAgainIsStartedUntilItHasDiedTooOften) {
  for (const int deaths : {Pager::kMostTries - 1, Pager::kMostTries}) {
    const std::string file = absl::StrCat(testing::TempDir(), "/starts", deaths);
    KeeperOptions options = options_;
    options.program.path = "/bin/sh";
    options.program.args = {
        "-c", absl::StrCat("echo >> ", file, "; [ $(wc -l < ", file, ") -gt ", deaths,
                           " ] && exec ", options_.program.path, " ", options_.program.args[0])};
    pager_ = std::make_unique<Pager>(options, space_.get(), absl::ZeroDuration());
    const absl::Status status = Out(MakeChunks({{"one"}}), std::make_shared<AwayMemory>());
    EXPECT_EQ(status.ok(), deaths < Pager::kMostTries) << status;
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
  }
}

}  // namespace
}  // namespace warpline::server
