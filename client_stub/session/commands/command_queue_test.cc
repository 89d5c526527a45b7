#include "client_stub/session/commands/command_queue.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "proto/frames.h"
#include "proto/wire.h"

namespace warpline::stub {
namespace {

constexpr uint64_t kMiB = 1u << 20;

// Puts an ImageData command whose `image` is `mark`; returns false when there is no room.
bool TryPut(CommandQueue* queue, uint64_t mark, size_t tail_bytes) {
  const cmd::ImageData command = {.image = mark, .total = tail_bytes, .offset = 0};
  const std::string tail(tail_bytes, static_cast<char>('a' + mark % 26));
  const size_t bytes = CommandBytes<cmd::ImageData>(tail_bytes);
  CommandQueue::Turn turn(queue);
  if (!queue->HasRoom(bytes)) return false;
  queue->Put(CommandId::kImageData, &command, sizeof(command), tail);
  return true;
}

struct Taken {
  uint64_t first_seq = 0;
  std::vector<uint64_t> marks;
};

// Reads a payload and checks that every command is whole.
Taken Parse(const std::string& payload) {
  Taken taken;
  CommandsHeader header;
  EXPECT_GE(payload.size(), sizeof(header));
  EXPECT_LE(payload.size(), kMaxCommandsPayload);
  std::memcpy(&header, payload.data(), sizeof(header));
  taken.first_seq = header.first_seq;
  CommandReader reader(std::string_view(payload).substr(sizeof(header)));
  while (!reader.Done()) {
    const auto view = reader.Next();
    if (!view.ok()) {
      ADD_FAILURE() << view.status();
      break;
    }
    cmd::ImageData command;
    std::memcpy(&command, view->body.data(), sizeof(command));
    const std::string_view tail = view->body.substr(sizeof(command));
    EXPECT_EQ(tail, std::string(command.total, static_cast<char>('a' + command.image % 26)));
    taken.marks.push_back(command.image);
  }
  EXPECT_EQ(taken.marks.size(), header.count);
  return taken;
}

TEST(CommandQueueTest, OneFrameTakesEverythingPending) {
  // The queue is on the heap because of its alignment.
  const auto owned = std::make_unique<CommandQueue>();
  CommandQueue& queue = *owned;
  queue.SetWindow(4 * kMiB, 100);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(TryPut(&queue, i, 5));
  std::string payload;
  ASSERT_TRUE(queue.Take(&payload));
  const Taken taken = Parse(payload);
  EXPECT_EQ(taken.first_seq, 1u);
  EXPECT_EQ(taken.marks, (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_FALSE(queue.Take(&payload));
  EXPECT_FALSE(queue.AllReceived());
  EXPECT_TRUE(queue.OnReceived(3));
  EXPECT_TRUE(queue.AllReceived());
}

TEST(CommandQueueTest, CommandsStayWholeAroundTheRingAndWithinAFrame) {
  const auto owned = std::make_unique<CommandQueue>();
  CommandQueue& queue = *owned;
  queue.SetWindow(1u << 30, 1u << 30);
  uint64_t put = 0;
  uint64_t seen = 0;
  std::string payload;
  // Puts commands of odd sizes, some of them frames long, until the ring has been filled three
  // times.
  for (size_t bytes = 0; bytes < 3 * CommandQueue::kCapacity;) {
    const size_t tail = (put * 104729) % 500000;
    while (!TryPut(&queue, put, tail)) {
      ASSERT_TRUE(queue.Take(&payload));
      const Taken taken = Parse(payload);
      EXPECT_EQ(taken.first_seq, seen + 1);
      for (const uint64_t mark : taken.marks) ASSERT_EQ(mark, seen++);
      ASSERT_TRUE(queue.OnReceived(seen));
    }
    ++put;
    bytes += tail;
  }
  while (queue.Take(&payload)) {
    for (const uint64_t mark : Parse(payload).marks) ASSERT_EQ(mark, seen++);
    ASSERT_TRUE(queue.OnReceived(seen));
  }
  EXPECT_EQ(seen, put);
}

// Pages that were never written cost more than the copy into them.
TEST(CommandQueueTest, AnEmptyRingIsUsedFromItsBeginningAgain) {
  const auto owned = std::make_unique<CommandQueue>();
  CommandQueue& queue = *owned;
  queue.SetWindow(16 * kMiB, 1u << 20);
  queue.Warm();
  constexpr size_t kBytes = 64u << 10;
  std::string payload;
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(TryPut(&queue, i, kBytes));
    ASSERT_TRUE(queue.Take(&payload));
    ASSERT_EQ(Parse(payload).marks, std::vector<uint64_t>{i});
    ASSERT_TRUE(queue.OnReceived(i + 1));
  }
  CommandQueue::Turn turn(&queue);
  EXPECT_LE(queue.reach(), CommandQueue::kRestartBytes + 2 * kBytes);
}

// The ring has a gap then, wherever the loop goes on.
TEST(CommandQueueTest, WhatWasPutAfterARestartIsSentAgain) {
  const auto owned = std::make_unique<CommandQueue>();
  CommandQueue& queue = *owned;
  queue.SetWindow(16 * kMiB, 1u << 20);
  std::string payload;
  size_t again = 0;
  uint64_t put = 0;
  for (int round = 0; round < 40; ++round) {
    // Fills the ring to where it begins again, or nearly.
    for (size_t bytes = 0; bytes < CommandQueue::kRestartBytes; bytes += 100'000) {
      ASSERT_TRUE(TryPut(&queue, put++, 100'000));
    }
    for (uint64_t seen = 0; queue.Take(&payload);) {
      seen = Parse(payload).first_seq + Parse(payload).marks.size() - 1;
      ASSERT_TRUE(queue.OnReceived(seen));
    }
    ASSERT_TRUE(queue.AllReceived());
    const uint64_t received = put;
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(TryPut(&queue, put++, 50));
    // A connection may be lost before anything of it was sent, and after.
    ASSERT_TRUE(queue.Rewind(received, &again));
    EXPECT_EQ(again, 0u);
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(queue.Take(&payload));
      EXPECT_EQ(Parse(payload).marks, (std::vector<uint64_t>{put - 3, put - 2, put - 1}));
      ASSERT_TRUE(queue.Rewind(received, &again));
      EXPECT_EQ(again, 1u);
    }
    ASSERT_TRUE(queue.Take(&payload));
    ASSERT_TRUE(queue.OnReceived(put));
  }
  CommandQueue::Turn turn(&queue);
  EXPECT_LT(queue.reach(), 2 * CommandQueue::kRestartBytes);
}

// The loop still has something of it when the ring could begin again.
TEST(CommandQueueTest, ARingThatIsNotEmptyGoesOn) {
  const auto owned = std::make_unique<CommandQueue>();
  CommandQueue& queue = *owned;
  queue.SetWindow(16 * kMiB, 1u << 20);
  std::string payload;
  ASSERT_TRUE(TryPut(&queue, 0, 5));
  uint64_t seen = 0;
  for (uint64_t put = 1; put < 1000; ++put) {
    ASSERT_TRUE(TryPut(&queue, put, 64u << 10));
    ASSERT_TRUE(queue.Take(&payload));
    for (const uint64_t mark : Parse(payload).marks) ASSERT_EQ(mark, seen++);
    // All but the latest are received.
    ASSERT_TRUE(queue.OnReceived(seen - 1));
  }
  CommandQueue::Turn turn(&queue);
  EXPECT_GT(queue.reach(), 3 * CommandQueue::kCapacity);
}

TEST(CommandQueueTest, UnreceivedBytesStayBelowTheWindow) {
  const auto owned = std::make_unique<CommandQueue>();
  CommandQueue& queue = *owned;
  queue.SetWindow(kMiB, 100000);
  uint64_t put = 0;
  while (TryPut(&queue, put, 1000)) ++put;
  EXPECT_LE(put * 1000, kMiB);
  EXPECT_GT(put, 1000u);
  // The ring holds the commands, but their frames' headers must fit in the window too.
  std::string payload;
  uint64_t sent = 0;
  while (queue.Take(&payload)) sent += payload.size();
  EXPECT_LE(sent, kMiB);
  ASSERT_TRUE(queue.OnReceived(Parse(payload).marks.size()));
  EXPECT_TRUE(TryPut(&queue, put, 1000));
}

TEST(CommandQueueTest, OutstandingCommandsStayBelowTheWindow) {
  const auto owned = std::make_unique<CommandQueue>();
  CommandQueue& queue = *owned;
  queue.SetWindow(kMiB, 16);
  uint64_t put = 0;
  while (TryPut(&queue, put, 0)) ++put;
  EXPECT_EQ(put, 16u);
  std::string payload;
  ASSERT_TRUE(queue.Take(&payload));
  ASSERT_TRUE(queue.OnReceived(16));
  EXPECT_FALSE(TryPut(&queue, put, 0));
  ASSERT_TRUE(queue.OnRetired(1));
  EXPECT_TRUE(TryPut(&queue, put, 0));
  EXPECT_FALSE(TryPut(&queue, put, 0));
}

TEST(CommandQueueTest, AcknowledgementOfWhatWasNotSentIsRefused) {
  const auto owned = std::make_unique<CommandQueue>();
  CommandQueue& queue = *owned;
  queue.SetWindow(kMiB, 16);
  ASSERT_TRUE(TryPut(&queue, 0, 0));
  EXPECT_FALSE(queue.OnReceived(1));
  EXPECT_FALSE(queue.OnRetired(1));
  std::string payload;
  ASSERT_TRUE(queue.Take(&payload));
  EXPECT_TRUE(queue.OnReceived(1));
  EXPECT_TRUE(queue.OnRetired(1));
  EXPECT_FALSE(queue.OnReceived(2));
  EXPECT_TRUE(queue.OnReceived(0));  // This is known already.
  EXPECT_TRUE(queue.AllReceived());
}

TEST(CommandQueueTest, RewindSendsExactlyWhatWasNotReceivedAgain) {
  const auto owned = std::make_unique<CommandQueue>();
  CommandQueue& queue = *owned;
  queue.SetWindow(4 * kMiB, 1000);
  std::string sent[3];
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(TryPut(&queue, i, 100));
    ASSERT_TRUE(queue.Take(&sent[i]));
  }
  size_t again = 0;
  ASSERT_TRUE(queue.Rewind(2, &again));
  EXPECT_EQ(again, 1u);
  std::string payload;
  ASSERT_TRUE(queue.Take(&payload));
  EXPECT_EQ(payload, sent[2]);
  EXPECT_FALSE(queue.Take(&payload));
  ASSERT_TRUE(queue.Rewind(3, &again));
  EXPECT_EQ(again, 0u);
  EXPECT_FALSE(queue.Take(&payload));
  EXPECT_TRUE(queue.AllReceived());
  ASSERT_TRUE(TryPut(&queue, 3, 100));
  EXPECT_TRUE(queue.Take(&payload));
}

TEST(CommandQueueTest, RewindToWhereTheServerCannotBeIsRefused) {
  const auto owned = std::make_unique<CommandQueue>();
  CommandQueue& queue = *owned;
  queue.SetWindow(4 * kMiB, 1000);
  std::string payload;
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(TryPut(&queue, i, 100));
  ASSERT_TRUE(queue.Take(&payload));  // All four are in one frame.
  size_t again = 0;
  EXPECT_FALSE(queue.Rewind(5, &again));
  EXPECT_FALSE(queue.Rewind(2, &again));
  const auto other = std::make_unique<CommandQueue>();
  other->SetWindow(4 * kMiB, 1000);
  ASSERT_TRUE(TryPut(other.get(), 0, 100));
  ASSERT_TRUE(other->Take(&payload));
  ASSERT_TRUE(other->OnReceived(1));
  EXPECT_FALSE(other->Rewind(0, &again));
}

TEST(CommandQueueTest, ThreadsTakeTurns) {
  const auto owned = std::make_unique<CommandQueue>();
  CommandQueue& queue = *owned;
  queue.SetWindow(8 * kMiB, 1u << 20);
  constexpr int kThreads = 4;
  constexpr int kEach = 1000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&queue, t] {
      for (int i = 0; i < kEach; ++i) EXPECT_TRUE(TryPut(&queue, t, 3));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string payload;
  std::vector<int> counts(kThreads);
  while (queue.Take(&payload)) {
    for (const uint64_t mark : Parse(payload).marks) ++counts.at(mark);
  }
  EXPECT_EQ(counts, std::vector<int>(kThreads, kEach));
}

TEST(CommandQueueTest, WaitForRoomEndsWhenCommandsRetireAndWhenTheQueueIsAborted) {
  const auto owned = std::make_unique<CommandQueue>();
  CommandQueue& queue = *owned;
  queue.SetWindow(kMiB, 16);
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(TryPut(&queue, 0, 0));
  std::string payload;
  ASSERT_TRUE(queue.Take(&payload));
  std::atomic<int> waits{0};
  std::thread producer([&] {
    CommandQueue::Turn turn(&queue);
    EXPECT_TRUE(queue.WaitForRoom(8));
    const cmd::ImageData command = {};
    queue.Put(CommandId::kImageData, &command, sizeof(command), {});
    waits.store(1);
    EXPECT_FALSE(queue.WaitForRoom(8));
  });
  EXPECT_TRUE(queue.OnRetired(1));
  while (waits.load() == 0) std::this_thread::yield();
  queue.Abort();
  producer.join();
}

// A host function's end must not wait for what waits for it.
TEST(CommandQueueTest, AFullWindowHasRoomForWhoMayGoBeyondIt) {
  const auto owned = std::make_unique<CommandQueue>();
  CommandQueue& queue = *owned;
  queue.SetWindow(kMiB, 16);
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(TryPut(&queue, 0, 0));
  std::atomic<bool> waits{false};
  std::thread producer([&] {
    CommandQueue::Turn turn(&queue);
    waits.store(true);
    EXPECT_FALSE(queue.WaitForRoom(8));
  });
  while (!waits.load()) std::this_thread::yield();
  {
    CommandQueue::Turn turn(&queue);
    ASSERT_TRUE(queue.WaitForRoom(8, 2));
    const cmd::ImageData command = {};
    queue.Put(CommandId::kImageData, &command, sizeof(command), {});
    EXPECT_TRUE(queue.HasRoom(8, 2));
    queue.Put(CommandId::kImageData, &command, sizeof(command), {});
    EXPECT_FALSE(queue.HasRoom(8, 2));
  }
  queue.Abort();
  producer.join();
}

TEST(CommandQueueTest, ManyProducersAndOneLoopLoseNothing) {
  const auto owned = std::make_unique<CommandQueue>();
  CommandQueue& queue = *owned;
  queue.SetWindow(kMiB, 200);  // Small, so that producers wait all the time.
  constexpr uint64_t kEach = 2000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&queue, t] {
      for (uint64_t i = 0; i < kEach; ++i) {
        const cmd::ImageData command = {.image = t * kEach + i, .total = 0, .offset = 0};
        CommandQueue::Turn turn(&queue);
        ASSERT_TRUE(queue.WaitForRoom(CommandBytes<cmd::ImageData>(0)));
        queue.Put(CommandId::kImageData, &command, sizeof(command), {});
      }
    });
  }
  std::vector<uint64_t> next(3, 0);
  std::string payload;
  for (uint64_t seen = 0; seen < 3 * kEach;) {
    if (!queue.Take(&payload)) {
      std::this_thread::yield();
      continue;
    }
    for (const uint64_t mark : Parse(payload).marks) {
      ASSERT_EQ(mark % kEach, next[mark / kEach]++);
      ++seen;
    }
    ASSERT_TRUE(queue.OnReceived(seen));
    ASSERT_TRUE(queue.OnRetired(seen));
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace warpline::stub
