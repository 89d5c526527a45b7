// Tests two sessions in one process, fed through rings as the server does.
#include "server/worker/host/ring_session.h"

#include <unistd.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/sealed_memory.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "proto/commands.h"
#include "proto/frames.h"
#include "proto/wire.h"
#include "server/hostlink/handover/journal_file.h"
#include "server/hostlink/handover/worker_rings.h"
#include "server/worker/testing/fake_context.h"
#include "transport/shm_board.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kArenaBase = 1ull << 40;
constexpr uint64_t kArenaBytes = 1ull << 32;

// The server's end of a session, and the session itself.
class Served {
 public:
  explicit Served(uint64_t number)
      : rings_(*WorkerRings::Create(1 << 20)), journal_(*JournalFile::Create()) {
    open_.set_session(number);
  }

  // The next Open() gives the session `board` to write on.
  void UseBoard(UniqueFd board, uint64_t generation) {
    board_ = std::move(board);
    open_.set_board_generation(generation);
  }

  absl::Status Open(size_t leave_out = 0) {
    std::vector<UniqueFd> fds;
    for (const int fd : rings_->child_fds()) fds.push_back(UniqueFd(dup(fd)));
    fds.push_back(UniqueFd(dup(journal_->fd())));
    if (open_.board_generation() > 0) fds.push_back(std::move(board_));
    fds.resize(fds.size() - leave_out);
    RingSession::Options options;
    options.devices = {{&context_}};
    auto session = RingSession::Create(open_, std::move(fds), &memory_, std::move(options));
    if (!session.ok()) return session.status();
    session_ = session->release();  // It lives as long as the process.
    if (const absl::Status restored = session_->Restore(open_); !restored.ok()) return restored;
    return session_->Start([this](const absl::Status& why) {
      MutexLock lock(&mu_);
      why_ = why;
      ended_changed_.NotifyAll();
    });
  }

  // Sends one command as a frame of its own.
  template <typename Command>
  uint64_t Send(const Command& command, uint64_t skip = 0) {
    const CommandsHeader header = {next_seq_ + skip, 1, 0};
    std::string payload(reinterpret_cast<const char*>(&header), sizeof(header));
    AppendCommand(command, 0, &payload);
    EXPECT_TRUE(*rings_->TryWrite(payload));
    return next_seq_++;
  }

  // Returns the result with which the round trip was answered.
  CudaResult Answer(uint64_t seq) {
    std::string payload;
    while (true) {
      if (!*rings_->TryRead(&payload)) {
        usleep(100);
        continue;
      }
      ReplyReader reader(payload);
      while (!reader.Done()) {
        const auto reply = reader.Next();
        if (!reply.ok()) return CudaResult::kUnknown;
        if (reply->id != ReplyId::kReply || reply->seq != seq) continue;
        std::string_view body = reply->body;
        ReplyBody head{};
        return TakeStruct(&body, &head) ? static_cast<CudaResult>(head.result)
                                        : CudaResult::kUnknown;
      }
    }
  }

  absl::Status WaitForEnd() {
    MutexLock lock(&mu_);
    while (!why_.has_value()) ended_changed_.Wait(&mu_);
    return *why_;
  }
  bool ended() {
    MutexLock lock(&mu_);
    return why_.has_value();
  }

 private:
  FakeContext context_;
  ArenaMemory memory_{{&context_}, kArenaBase, kArenaBytes};
  std::shared_ptr<WorkerRings> rings_;
  std::unique_ptr<JournalFile> journal_;
  UniqueFd board_;
  warpline_internal::OpenWorker open_;
  RingSession* session_ = nullptr;
  uint64_t next_seq_ = 1;
  Mutex mu_;
  CondVar ended_changed_;
  std::optional<absl::Status> why_ ABSL_GUARDED_BY(mu_);  // From its end on.
};

// The object is never destroyed, because decoders run until the process ends.
Served* NewServed(uint64_t number) {
  static auto* const all = new std::vector<std::unique_ptr<Served>>;
  return all->emplace_back(std::make_unique<Served>(number)).get();
}

TEST(RingSessionTest, CommandsComeThroughTheRingAndAnswersGoBack) {
  Served* const served = NewServed(1);
  ASSERT_TRUE(served->Open().ok());
  served->Send(cmd::Memset{1, kArenaBase, 1, 0, 4});
  EXPECT_EQ(served->Answer(served->Send(cmd::StreamSync{1})), CudaResult::kSuccess);
  EXPECT_EQ(served->Answer(served->Send(cmd::StreamSync{99})), CudaResult::kInvalidHandle);
}

TEST(RingSessionTest, AClientThatBreaksTheProtocolEndsItsSessionAndNoOther) {
  Served* const broken = NewServed(1);
  Served* const other = NewServed(2);
  ASSERT_TRUE(broken->Open().ok());
  ASSERT_TRUE(other->Open().ok());
  broken->Send(cmd::StreamSync{1}, /*skip=*/5);
  EXPECT_EQ(broken->WaitForEnd().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(other->Answer(other->Send(cmd::StreamSync{1})), CudaResult::kSuccess);
  EXPECT_FALSE(other->ended());
}

TEST(RingSessionTest, WhatIsCompleteIsOnTheBoard) {
  const UniqueFd board = *CreateBoard();
  const auto reader = *BoardReader::Attach(board);
  Served* const served = NewServed(1);
  served->UseBoard(UniqueFd(dup(board.get())), 4);
  ASSERT_TRUE(served->Open().ok());
  const uint64_t last = served->Send(cmd::Memset{1, kArenaBase, 1, 0, 4});
  BoardReport report = {};
  while (!reader->Read(1, &report) || report.number < last) usleep(100);
  EXPECT_EQ(report.number, last);
  EXPECT_EQ(report.after, 0u);
  EXPECT_EQ(report.generation, 4u);
}

TEST(RingSessionTest, OtherDescriptorsAreRefused) {
  EXPECT_EQ(NewServed(1)->Open(/*leave_out=*/1).code(), absl::StatusCode::kInvalidArgument);
  Served* const without_board = NewServed(2);
  without_board->UseBoard(UniqueFd(), 1);
  EXPECT_EQ(without_board->Open(/*leave_out=*/1).code(), absl::StatusCode::kInvalidArgument);
  Served* const no_board = NewServed(3);
  no_board->UseBoard(*NewSealedMemory("other", 1 << 20), 1);
  EXPECT_EQ(no_board->Open().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace warpline::worker
