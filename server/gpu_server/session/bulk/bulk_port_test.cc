#include "server/gpu_server/session/bulk/bulk_port.h"

#include <string>
#include <vector>

#include "common/sealed_memory.h"
#include "gtest/gtest.h"
#include "server/gpu_server/session/bulk/bulk_channel.h"

namespace warpline::server {
namespace {

constexpr uint64_t kVa = kHostArenaBase;
constexpr uint64_t kBytes = 1u << 20;

class FakeChannel : public Channel {
 public:
  const char* transport() const override { return "fake"; }
  void Wake() override { ++wakes; }
  void Close(const absl::Status& status) override { closed.push_back(status.code()); }

  int wakes = 0;
  std::vector<absl::StatusCode> closed;
};

class BulkPortTest : public testing::Test {
 protected:
  void SetUp() override {
    auto memory = NewSealedMemory("test", kBytes);
    ASSERT_TRUE(memory.ok());
    ASSERT_TRUE(port_->Add(kVa, kBytes, memory->get()));
    ASSERT_TRUE(port_->Attach(0, &channel_));
  }

  std::string Read(uint64_t va, size_t bytes) {
    std::string read(bytes, '?');
    EXPECT_TRUE(port_->Get(0, &channel_, va, &read).ok());
    return read;
  }

  const LoopScope on_loop_{&channel_loop};
  const std::shared_ptr<BulkPort> port_ = std::make_shared<BulkPort>();
  FakeChannel channel_;
};

TEST_F(BulkPortTest, WhatIsPutIsGot) {
  ASSERT_TRUE(port_->Put(0, &channel_, kVa + 5, "bytes").ok());
  EXPECT_EQ(Read(kVa + 4, 7), std::string("\0bytes\0", 7));
}

TEST_F(BulkPortTest, NothingOutsideASegmentIsReached) {
  std::string bytes(16, 'x');
  for (const uint64_t va : {uint64_t{0}, kVa - 1, kVa - 16, kVa + kBytes - 15, kVa + kBytes,
                            ~uint64_t{0} - 7, ~uint64_t{0}}) {
    EXPECT_EQ(port_->Put(0, &channel_, va, bytes).code(), absl::StatusCode::kInvalidArgument) << va;
    EXPECT_EQ(port_->Get(0, &channel_, va, &bytes).code(), absl::StatusCode::kInvalidArgument)
        << va;
  }
  EXPECT_TRUE(port_->Put(0, &channel_, kVa + kBytes - 16, bytes).ok());
  port_->Remove(kVa);
  EXPECT_FALSE(port_->Put(0, &channel_, kVa, bytes).ok());
}

// What was sent on a lost connection may still arrive, when its client has put something else
// there.
TEST_F(BulkPortTest, AChannelWhoseSlotIsTakenMovesNothing) {
  FakeChannel next;
  ASSERT_TRUE(port_->Attach(0, &next));
  EXPECT_EQ(channel_.closed, std::vector{absl::StatusCode::kAborted});
  std::string bytes = "late";
  EXPECT_EQ(port_->Put(0, &channel_, kVa, bytes).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(port_->Get(0, &channel_, kVa, &bytes).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(port_->Put(0, &next, kVa, "new").ok());
  // The former one's end is not the slot's.
  port_->Detach(0, &channel_);
  EXPECT_TRUE(port_->Put(0, &next, kVa, "new").ok());
}

TEST_F(BulkPortTest, AnAnswerIsForWhoHasTheSlot) {
  FakeChannel next;
  port_->Push(0, {kBulkMemoryDone, "first"});
  EXPECT_EQ(channel_.wakes, 1);
  ASSERT_TRUE(port_->Attach(0, &next));
  Frame frame;
  EXPECT_FALSE(port_->Pop(0, &next, &frame));
  port_->Push(0, {kBulkMemoryDone, "second"});
  EXPECT_FALSE(port_->Pop(0, &channel_, &frame));
  ASSERT_TRUE(port_->Pop(0, &next, &frame));
  EXPECT_EQ(frame.payload, "second");
  EXPECT_FALSE(port_->Pop(0, &next, &frame));
  port_->Push(1, {kBulkMemoryDone, "nobody"});
}

TEST_F(BulkPortTest, AfterTheSessionsEndThereIsNothing) {
  FakeChannel late;
  port_->Shut();
  EXPECT_EQ(channel_.closed, std::vector{absl::StatusCode::kPermissionDenied});
  EXPECT_FALSE(port_->Attach(1, &late));
  EXPECT_FALSE(port_->Put(0, &channel_, kVa, "x").ok());
  auto memory = NewSealedMemory("test", kBytes);
  EXPECT_FALSE(port_->Add(kVa, kBytes, memory->get()));
}

TEST_F(BulkPortTest, TheNumberOfSegmentsIsBounded) {
  auto memory = NewSealedMemory("test", kBytes);
  for (size_t i = 1; i < BulkPort::kMostSegments; ++i) {
    EXPECT_TRUE(port_->HasRoom());
    EXPECT_TRUE(port_->Add(kVa + i * kBytes, kBytes, memory->get()));
  }
  EXPECT_FALSE(port_->HasRoom());
  EXPECT_FALSE(port_->Add(kVa + BulkPort::kMostSegments * kBytes, kBytes, memory->get()));
}

class BulkChannelTest : public BulkPortTest {
 protected:
  void SetUp() override {
    BulkPortTest::SetUp();
    Frame ready;
    ASSERT_TRUE(bulk_.NextFrame(&ready));
    EXPECT_EQ(ready.kind, kBulkReady);
  }

  void Send(uint32_t kind, uint64_t va, uint64_t bytes, const std::string& tail = "") {
    const BulkHeader header = {va, bytes};
    Frame frame = {kind,
                   std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + tail};
    EXPECT_EQ(bulk_.OnFrame(&frame), Accept::kTaken);
  }

  BulkChannel bulk_{port_,
                    0,
                    &channel_,
                    {[this](uint32_t slot, const warpline_internal::HostMemoryRequest& request) {
                       asked_.push_back(slot + request.bytes());
                     },
                     [this](uint64_t bytes) { moved_ += bytes; },
                     [this](const absl::Status& status) { broken_.push_back(status.code()); }}};
  uint64_t moved_ = 0;
  std::vector<uint64_t> asked_;
  std::vector<absl::StatusCode> broken_;
};

TEST_F(BulkChannelTest, PutsAreCountedAndGetsAnsweredInOrder) {
  Send(kBulkPut, kVa, 3, "abc");
  Send(kBulkPut, kVa + 3, 3, "def");
  Send(kBulkGet, kVa + 2, 2);
  Send(kBulkGet, kVa, 1);
  Frame frame;
  ASSERT_TRUE(bulk_.NextFrame(&frame));
  ASSERT_EQ(frame.kind, kBulkTaken);
  EXPECT_EQ(frame.payload, std::string("\2\0\0\0\0\0\0\0", 8));
  ASSERT_TRUE(bulk_.NextFrame(&frame));
  EXPECT_EQ(frame.kind, kBulkBytes);
  EXPECT_EQ(frame.payload, "cd");
  ASSERT_TRUE(bulk_.NextFrame(&frame));
  EXPECT_EQ(frame.payload, "a");
  EXPECT_FALSE(bulk_.NextFrame(&frame));
  EXPECT_TRUE(broken_.empty());
  EXPECT_EQ(moved_, 9u);
}

TEST_F(BulkChannelTest, WhatACorrectClientDoesNotSendEndsIt) {
  const struct {
    uint32_t kind;
    uint64_t va;
    uint64_t bytes;
    std::string tail;
  } frames[] = {
      {kBulkPut, kVa, 4, "abc"},
      {kBulkPut, kVa, 0, ""},
      {kBulkPut, kVa, kMaxBulkPiece + 1, std::string(kMaxBulkPiece + 1, 'x')},
      {kBulkPut, kVa + kBytes, 1, "x"},
      {kBulkPut, ~uint64_t{0}, 1, "x"},
      {kBulkGet, kVa, 0, ""},
      {kBulkGet, kVa, kMaxBulkPiece + 1, ""},
      {kBulkGet, kVa, 1, "more"},
      {kBulkMemory, 1, 2, ""},
      {kCommands, 1, 2, ""},
      {kBulkHello, 1, 2, ""},
      {999, 1, 2, ""},
  };
  for (const auto& sent : frames) {
    FakeChannel channel;
    ASSERT_TRUE(port_->Attach(0, &channel));
    int broken = 0;
    BulkChannel bulk(port_, 0, &channel,
                     {[](uint32_t, const warpline_internal::HostMemoryRequest&) {},
                      [](uint64_t) { ADD_FAILURE() << "something was moved"; },
                      [&](const absl::Status&) { ++broken; }});
    const BulkHeader header = {sent.va, sent.bytes};
    Frame frame = {sent.kind,
                   std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + sent.tail};
    EXPECT_EQ(bulk.OnFrame(&frame), Accept::kTaken);
    EXPECT_EQ(broken, 1) << sent.kind << " " << sent.va << " " << sent.bytes;
    EXPECT_EQ(channel.closed.size(), 1u);
    Frame none;
    EXPECT_FALSE(bulk.NextFrame(&none));
    bulk.OnClosed();
  }
}

TEST_F(BulkChannelTest, AGetOutsideEndsIt) {
  Send(kBulkGet, kVa + kBytes - 1, 2);
  Frame frame;
  EXPECT_FALSE(bulk_.NextFrame(&frame));
  EXPECT_EQ(broken_, std::vector{absl::StatusCode::kInvalidArgument});
}

TEST_F(BulkChannelTest, GetsThatNobodyTakesAreBounded) {
  for (size_t i = 0; i < BulkChannel::kMaxGets; ++i) Send(kBulkGet, kVa, 1);
  EXPECT_TRUE(broken_.empty());
  Send(kBulkGet, kVa, 1);
  EXPECT_EQ(broken_.size(), 1u);
}

TEST_F(BulkChannelTest, MemoryIsAskedForOnceAtATime) {
  warpline_internal::HostMemoryRequest request;
  request.set_bytes(4096);
  Frame frame = {kBulkMemory, request.SerializeAsString()};
  bulk_.OnFrame(&frame);
  EXPECT_EQ(asked_, std::vector<uint64_t>{4096});
  port_->Push(0, {kBulkMemoryDone, "answer"});
  Frame answer;
  ASSERT_TRUE(bulk_.NextFrame(&answer));
  EXPECT_EQ(answer.payload, "answer");
  bulk_.OnFrame(&frame);
  EXPECT_TRUE(broken_.empty());
  bulk_.OnFrame(&frame);
  EXPECT_EQ(broken_.size(), 1u);
}

}  // namespace
}  // namespace warpline::server
