#include "client_stub/session/frames/receipts.h"

#include "gtest/gtest.h"
#include "proto/frames.h"
#include "proto/wire.h"

namespace warpline::stub {
namespace {

TEST(ReceiptsTest, NothingIsSaidOfASessionThatCannotBeResumed) {
  Receipts receipts;
  for (uint64_t i = 0; i < 2 * kAckFrames; ++i) receipts.NoteTaken(100);
  Frame frame;
  EXPECT_FALSE(receipts.NextAck(&frame));
  EXPECT_EQ(receipts.InPassing(), 0u);
}

TEST(ReceiptsTest, WhoTakesMuchAndSendsNothingSaysSo) {
  Receipts receipts;
  receipts.Start();
  Frame frame;
  for (uint64_t i = 1; i < kAckFrames; ++i) receipts.NoteTaken(1);
  EXPECT_FALSE(receipts.NextAck(&frame));
  receipts.NoteTaken(1);
  ASSERT_TRUE(receipts.NextAck(&frame));
  EXPECT_EQ(frame.kind, static_cast<uint32_t>(kAck));
  std::string_view rest = frame.payload;
  AckBody body;
  ASSERT_TRUE(TakeStruct(&rest, &body));
  EXPECT_EQ(body.frames, kAckFrames);
  EXPECT_FALSE(receipts.NextAck(&frame));
  receipts.NoteTaken(kAckBytes);
  EXPECT_TRUE(receipts.NextAck(&frame));
}

TEST(ReceiptsTest, CommandsSayItInPassing) {
  Receipts receipts;
  receipts.Start();
  Frame frame;
  receipts.NoteTaken(kAckBytes);
  EXPECT_EQ(receipts.InPassing(), 1u);
  receipts.NoteSaid();
  EXPECT_FALSE(receipts.NextAck(&frame));
  EXPECT_EQ(receipts.taken(), 1u);
}

}  // namespace
}  // namespace warpline::stub
