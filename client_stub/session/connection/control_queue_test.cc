#include "client_stub/session/connection/control_queue.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

std::vector<std::string> TakeAll(ControlQueue* queue) {
  std::vector<std::string> payloads;
  for (Frame frame; queue->Take(&frame);) payloads.push_back(frame.payload);
  return payloads;
}

TEST(ControlQueueTest, RewindSendsWhatWasNotReceivedBeforeWhatIsNew) {
  // On the heap: a sanitizer's stack does not keep to its alignment.
  const auto channel = std::make_unique<ChannelSlot>();
  ControlQueue queue(channel.get());
  queue.Push({kMemoryRequest, "one"});
  queue.Push({kMemoryReturn, "two"});
  queue.Push({kMemoryRequest, "three"});
  EXPECT_EQ(TakeAll(&queue).size(), 3u);
  ASSERT_TRUE(queue.OnReceived(1));
  queue.Push({kMemoryRequest, "four"});
  size_t again = 0;
  ASSERT_TRUE(queue.Rewind(1, &again));
  EXPECT_EQ(again, 2u);
  EXPECT_EQ(TakeAll(&queue), (std::vector<std::string>{"two", "three", "four"}));
  ASSERT_TRUE(queue.Rewind(4, &again));
  EXPECT_EQ(again, 0u);
  EXPECT_TRUE(TakeAll(&queue).empty());
}

TEST(ControlQueueTest, OnlyCountedFramesAreKept) {
  const auto channel = std::make_unique<ChannelSlot>();
  ControlQueue queue(channel.get());
  queue.Push({kHello, "hello"});
  EXPECT_EQ(TakeAll(&queue).size(), 1u);
  EXPECT_FALSE(queue.OnReceived(1));
  size_t again = 0;
  ASSERT_TRUE(queue.Rewind(0, &again));
  EXPECT_TRUE(TakeAll(&queue).empty());
}

TEST(ControlQueueTest, RewindToWhereTheServerCannotBeIsRefused) {
  const auto channel = std::make_unique<ChannelSlot>();
  ControlQueue queue(channel.get());
  queue.Push({kMemoryRequest, "one"});
  TakeAll(&queue);
  size_t again = 0;
  EXPECT_FALSE(queue.Rewind(2, &again));
  ASSERT_TRUE(queue.OnReceived(1));
  EXPECT_FALSE(queue.Rewind(0, &again));
}

}  // namespace
}  // namespace warpline::stub
