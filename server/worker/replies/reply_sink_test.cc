#include "server/worker/replies/reply_sink.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/progress.h"
#include "gtest/gtest.h"
#include "proto/frames.h"
#include "proto/wire.h"
#include "transport/shm_board.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kStream = 5;
constexpr uint64_t kGeneration = 3;

// Notes, when a frame is written, what the board says of the stream at that moment.
class NotingWriter : public FrameWriter {
 public:
  explicit NotingWriter(const BoardReader* board) : board_(board) {}

  void Write(std::string_view head, std::string_view tail) override {
    BoardReport report = {};
    seen.push_back(board_->Read(kStream, &report) ? report.number : 0);
    frames.push_back(std::string(head) + std::string(tail));
  }

  std::vector<uint64_t> seen;
  std::vector<std::string> frames;

 private:
  const BoardReader* const board_;
};

class ReplySinkTest : public testing::Test {
 protected:
  ReplySinkTest()
      : fd_(*CreateBoard()),
        reader_(*BoardReader::Attach(fd_)),
        writer_(reader_.get()),
        sink_(&writer_, &progress_) {
    sink_.UseBoard(*BoardWriter::Attach(fd_, kGeneration));
  }

  static void AppendRetired(uint64_t seq, uint64_t all_seq, std::string* batch) {
    AppendNotice(ReplyId::kRetired, seq, notice::Retired{kStream, all_seq, 0}, {}, batch);
  }
  BoardReport Report(uint64_t key) const {
    BoardReport report = {};
    EXPECT_TRUE(reader_->Read(key, &report));
    return report;
  }

  const UniqueFd fd_;
  const std::unique_ptr<BoardReader> reader_;
  NotingWriter writer_;
  Progress progress_;
  ReplySink sink_;
};

TEST_F(ReplySinkTest, TheClientHearsOfTheBoardFirst) {
  ASSERT_EQ(writer_.frames.size(), 1u);
  ReplyReader reader(writer_.frames[0]);
  const auto reply = reader.Next();
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->id, ReplyId::kBoardBegins);
  notice::BoardBegins begins;
  std::string_view body = reply->body;
  ASSERT_TRUE(TakeStruct(&body, &begins));
  EXPECT_EQ(begins.generation, kGeneration);
}

TEST_F(ReplySinkTest, MereReportsAreOnTheBoardBeforeTheyAreWritten) {
  sink_.Retired(kStream, 10, 8, 8);
  EXPECT_EQ(writer_.seen.back(), 10u);
  EXPECT_EQ(Report(kStream).number, 10u);
  EXPECT_EQ(Report(kStream).after, 0u);
  EXPECT_EQ(Report(kStream).generation, kGeneration);
  EXPECT_EQ(Report(kWholeSession).number, 8u);
}

TEST_F(ReplySinkTest, WhatComesFirstIsWrittenBeforeTheReport) {
  std::string batch;
  sink_.CopyData(9, 0, "data", &batch);
  AppendRetired(10, 10, &batch);
  sink_.Send(&batch);
  EXPECT_EQ(writer_.seen.back(), 0u);
  EXPECT_EQ(Report(kStream).number, 10u);
  EXPECT_EQ(Report(kStream).after, 1u);
}

TEST_F(ReplySinkTest, EachOrderedReplyIsCountedOnce) {
  sink_.Reply(1, CudaResult::kSuccess);
  sink_.Failed(2, CommandId::kLaunch, CudaResult::kInvalidValue, "why");
  sink_.Output(1, "printed");
  sink_.Freed(1);     // Nobody's completion
  sink_.Unmapped(1);  // waits for these.
  std::string batch;
  sink_.CopyData(3, 0, std::string(100'000, 'x'), &batch);  // A frame of its own, in two parts.
  sink_.Retired(kStream, 3, 3, 3);
  EXPECT_EQ(Report(kStream).after, 4u);
}

TEST_F(ReplySinkTest, TheWholeSessionNeverGoesBack) {
  sink_.Retired(kStream, 10, 8, 8);
  sink_.Retired(0, 0, 6, 9);
  EXPECT_EQ(Report(kWholeSession).number, 8u);
}

TEST_F(ReplySinkTest, NothingIsReportedWhileMuted) {
  sink_.SetMuted(true);
  sink_.Retired(kStream, 10, 8, 8);
  BoardReport report;
  EXPECT_FALSE(reader_->Read(kStream, &report));
}

}  // namespace
}  // namespace warpline::worker
