#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/sealed_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "server/gpu_server/moves/move_pipe.h"
#include "server/gpu_server/moves/received_sessions.h"
#include "server/gpu_server/moves/sent_sessions.h"
#include "server/gpu_server/testing/away_letters.h"
#include "server/hostlink/handover/journal_file.h"
#include "transport/inproc/inproc_channel.h"

namespace warpline::server {
namespace {

using testing::HasSubstr;

constexpr uint64_t kGranule = SwapSpace::kGranule;

// The other server: a channel whose first frame is kMove, and a thread that receives.
class OtherServer : public Acceptor {
 public:
  explicit OtherServer(SwapSpace* space) : space_(space) {}
  ~OtherServer() override {
    server_.Shutdown();
    if (thread_.joinable()) thread_.join();
  }

  MoveDialer Dialer() {
    return [this](const std::string&, ChannelHandler* handler) {
      return server_.Dial(handler, ChannelOptions());
    };
  }

  std::unique_ptr<SessionHandler> Accept(const std::string&, absl::Status*) override {
    return std::make_unique<Handler>(this);
  }

  MoveLimits limits = {.sessions = 2, .memory_bytes = 8 * kGranule};
  absl::Status verdict;  // The scheduler's, on the commit.
  absl::StatusOr<std::vector<SessionCut>> received = absl::UnknownError("nothing yet");
  std::string ticket;

 private:
  class Handler : public SessionHandler {
   public:
    explicit Handler(OtherServer* owner) : owner_(owner) {}
    void Started(Channel* channel) RUNS_ON(channel_loop) override { channel_ = channel; }
    bool NextFrame(Frame* frame) RUNS_ON(channel_loop) override {
      return move_ != nullptr && move_->NextFrame(frame);
    }
    warpline::Accept OnFrame(Frame* frame) RUNS_ON(channel_loop) override {
      if (move_ != nullptr) return move_->OnFrame(frame);
      EXPECT_EQ(frame->kind, kMove);
      warpline_internal::MoveHello hello;
      EXPECT_TRUE(hello.ParseFromString(frame->payload));
      auto pipe = std::make_shared<MovePipe>();
      move_ = std::make_unique<MoveChannel>(pipe, channel_);
      owner_->Begin(hello, std::move(pipe));
      return warpline::Accept::kTaken;
    }
    void OnClosed(const absl::Status& status) RUNS_ON(channel_loop) override {
      if (move_ != nullptr) move_->OnClosed(status);
    }

   private:
    OtherServer* const owner_;
    Channel* channel_ ABSL_GUARDED_BY(channel_loop) = nullptr;
    std::unique_ptr<MoveChannel> move_ ABSL_GUARDED_BY(channel_loop);
  };

  void Begin(const warpline_internal::MoveHello& hello, std::shared_ptr<MovePipe> pipe) {
    ticket = hello.ticket();
    if (thread_.joinable()) thread_.join();
    thread_ = std::thread([this, count = hello.sessions(), pipe = std::move(pipe)] {
      received = ReceiveSessions(pipe.get(), count, limits, space_);
      if (!received.ok()) return pipe->Close(received.status());
      if (!verdict.ok()) return pipe->Close(verdict);
      pipe->Finish("token");
    });
  }

  SwapSpace* const space_;
  std::thread thread_;
  InprocServer server_{this, ChannelOptions()};
};

class MovesTest : public testing::Test {
 protected:
  SessionCut Cut(const std::string& letters) {
    SessionCut cut;
    cut.manifest.set_secret("sixteen bytes: " + letters.substr(0, 1));
    auto* const range = cut.manifest.add_range();
    range->set_va(uint64_t{1} << 40);
    range->set_bytes((letters.size() + 1) * kGranule);
    cut.journal = *JournalFile::CreateMemory();
    Put(cut.journal.get(), "head", 0);
    Put(cut.journal.get(), "data", kJournalBytes - 4);
    cut.away = std::make_shared<AwayMemory>();
    cut.away->used = std::vector<bool>(letters.size() + 1, true);
    cut.away->used[0] = false;
    cut.away->place = *here_->Take(letters.size() * kGranule);
    FillWithLetters(*here_, *cut.away, letters);
    cut.staging.push_back(*NewSealedMemory("staging", 8192));
    Put(cut.staging.back().get(), "staged", 4096);
    cut.manifest.add_staging()->set_bytes(8192);
    return cut;
  }

  absl::StatusOr<std::string> Send(std::vector<SessionCut> cuts) {
    return SendSessions(other_.Dialer(), "other:1", "ticket", &cuts, here_.get(), &stop_,
                        &certain_);
  }

  const std::unique_ptr<SwapSpace> here_ = *SwapSpace::Open(16 * kGranule, 1);
  const std::unique_ptr<SwapSpace> there_ = *SwapSpace::Open(8 * kGranule, 1);
  OtherServer other_{there_.get()};
  MoveStop stop_;
  bool certain_ = false;
};

TEST_F(MovesTest, WhatArrivesIsWhatWasSent) {
  std::vector<SessionCut> cuts;
  cuts.push_back(Cut("abc"));
  cuts.push_back(Cut("de"));
  const auto token = Send(std::move(cuts));
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(*token, "token");
  EXPECT_EQ(other_.ticket, "ticket");
  ASSERT_TRUE(other_.received.ok()) << other_.received.status();
  ASSERT_EQ(other_.received->size(), 2u);
  const SessionCut& first = other_.received->front();
  EXPECT_EQ(first.manifest.secret(), "sixteen bytes: a");
  EXPECT_EQ(LettersOf(*there_, *first.away), "abc");
  EXPECT_EQ(LettersOf(*there_, *other_.received->back().away), "de");
  EXPECT_EQ(Get(first.journal.get(), 4, 0), "head");
  EXPECT_EQ(Get(first.journal.get(), 4, kJournalBytes - 4), "data");
  EXPECT_EQ(Get(first.staging[0].get(), 6, 4096), "staged");
  EXPECT_FALSE(first.variables.valid());
}

TEST_F(MovesTest, ALeaseWithoutSessionsMovesToo) {
  EXPECT_TRUE(Send({}).ok());
  EXPECT_TRUE(other_.received->empty());
}

TEST_F(MovesTest, ARefusalAfterTheLastByteIsNotCertain) {
  other_.verdict = absl::FailedPreconditionError("the move is over");
  std::vector<SessionCut> cuts;
  cuts.push_back(Cut("a"));
  const absl::Status refused = Send(std::move(cuts)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("other:1: the move is over"));
  EXPECT_FALSE(certain_);
}

TEST_F(MovesTest, AServerThatIsNotThereHasNothing) {
  const auto dial = [](const std::string&,
                       ChannelHandler*) -> absl::StatusOr<std::unique_ptr<Channel>> {
    return absl::UnavailableError("nobody answers");
  };
  std::vector<SessionCut> none;
  EXPECT_FALSE(SendSessions(dial, "other:1", "ticket", &none, here_.get(), &stop_, &certain_).ok());
  EXPECT_TRUE(certain_);
}

TEST_F(MovesTest, SendingEndsWhenTheServerStops) {
  stop_.Stop();
  std::vector<SessionCut> cuts;
  cuts.push_back(Cut("abcdefgh"));
  EXPECT_FALSE(Send(std::move(cuts)).ok());
}

TEST_F(MovesTest, MoreThanTheLeaseHasIsRefused) {
  std::vector<SessionCut> cuts;
  for (const char* letters : {"a", "b", "c"}) cuts.push_back(Cut(letters));
  EXPECT_THAT(Send(std::move(cuts)).status().message(), HasSubstr("3 sessions of a lease"));
  other_.limits.memory_bytes = 3 * kGranule;
  cuts.clear();
  for (const char* letters : {"a", "b"}) cuts.push_back(Cut(letters));
  EXPECT_THAT(Send(std::move(cuts)).status().message(), HasSubstr("more memory than their lease"));
  EXPECT_EQ(there_->free_bytes(), there_->bytes());
}

TEST_F(MovesTest, TooLittleHostMemoryIsSaidAndGivenBack) {
  std::vector<SessionCut> cuts;
  cuts.push_back(Cut("abcde"));
  const auto others = *there_->Take(4 * kGranule);
  const absl::Status refused = Send(std::move(cuts)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("--swap_host"));
  EXPECT_EQ(there_->free_bytes(), 4 * kGranule);
}

// A server that was taken over.
class Hostile : public ChannelHandler {
 public:
  explicit Hostile(std::vector<Frame> frames) : frames_(std::move(frames)) {}
  bool NextFrame(Frame* frame) RUNS_ON(channel_loop) override {
    if (next_ == frames_.size()) return false;
    *frame = frames_[next_++];
    return true;
  }
  Accept OnFrame(Frame*) RUNS_ON(channel_loop) override { return Accept::kTaken; }
  void OnClosed(const absl::Status& status) RUNS_ON(channel_loop) override {
    MutexLock lock(&mu_);
    status_ = status;
    closed_ = true;
    changed_.NotifyAll();
  }
  absl::Status Await() {
    MutexLock lock(&mu_);
    while (!closed_) changed_.Wait(&mu_);
    return status_;
  }

 private:
  const std::vector<Frame> frames_;
  size_t next_ ABSL_GUARDED_BY(channel_loop) = 0;
  Mutex mu_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

std::string Sized(const std::string& manifest) {
  const uint64_t size = manifest.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + manifest;
}

TEST_F(MovesTest, GarbageIsRefused) {
  warpline_internal::SavedSession right;
  right.set_format(kSavedSessionFormat);
  right.set_secret("sixteen bytes: a");
  warpline_internal::SavedSession old = right, open = right;
  old.set_format(kSavedSessionFormat + 1);
  open.clear_secret();
  const uint64_t end_of_journal[2] = {~uint64_t{0}, 16};
  const std::string outside(reinterpret_cast<const char*>(end_of_journal), 16);
  const std::vector<std::pair<const char*, Frame>> rows = {
      {"another frame", {kCommands, "x"}},
      {"an empty piece", {kMoveBytes, ""}},
      {"a manifest without an end", {kMoveBytes, std::string(8, '\xff')}},
      {"no manifest", {kMoveBytes, Sized("\xff\xff")}},
      {"another format", {kMoveBytes, Sized(old.SerializeAsString())}},
      {"no secret", {kMoveBytes, Sized(open.SerializeAsString())}},
      {"an extent outside of its part", {kMoveBytes, Sized(right.SerializeAsString()) + outside}},
  };
  warpline_internal::MoveHello hello;
  hello.set_sessions(1);
  for (const auto& [what, frame] : rows) {
    Hostile hostile({{kMove, hello.SerializeAsString()}, frame});
    auto channel = other_.Dialer()("other:1", &hostile);
    ASSERT_TRUE(channel.ok());
    (*channel)->Wake();
    const absl::Status refused = hostile.Await();
    EXPECT_TRUE(absl::IsInvalidArgument(refused) || absl::IsFailedPrecondition(refused))
        << what << ": " << refused;
  }
  EXPECT_EQ(there_->free_bytes(), there_->bytes());
}

}  // namespace
}  // namespace warpline::server
