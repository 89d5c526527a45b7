#include "server/worker/executors/task_queue.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

Task Numbered(uint64_t seq) {
  Task task;
  task.seq = seq;
  return task;
}

// Takes all tasks out.
std::vector<uint64_t> Take(TaskQueue* queue) {
  std::vector<uint64_t> seqs;
  for (; !queue->empty(); queue->pop_front()) seqs.push_back(queue->front().seq);
  return seqs;
}

std::vector<uint64_t> From(uint64_t first, uint64_t count) {
  std::vector<uint64_t> seqs;
  for (uint64_t i = 0; i < count; ++i) seqs.push_back(first + i);
  return seqs;
}

TEST(TaskQueueTest, KeepsTheOrderOfManyTasks) {
  TaskQueue queue;
  for (const uint64_t count : {1, 4, 5, 1000}) {
    for (uint64_t i = 0; i < count; ++i) queue.push_back(Numbered(i));
    EXPECT_EQ(queue.size(), count);
    EXPECT_EQ(Take(&queue), From(0, count));
  }
}

TEST(TaskQueueTest, TasksAreAddedWhileOthersAreTaken) {
  TaskQueue queue;
  uint64_t put = 0, taken = 0;
  for (int round = 1; round < 200; ++round) {
    for (int i = 0; i < round % 7 + 1; ++i) queue.push_back(Numbered(put++));
    for (int i = 0; i < round % 5 + 1 && !queue.empty(); ++i, queue.pop_front()) {
      ASSERT_EQ(queue.front().seq, taken++);
    }
    ASSERT_EQ(queue.size(), put - taken);
  }
  EXPECT_EQ(Take(&queue), From(taken, put - taken));
}

TEST(TaskQueueTest, WhatIsAppendedComesBehindAndIsTakenFromTheOther) {
  for (const uint64_t first : {0, 1, 3, 100}) {
    for (const uint64_t second : {0, 1, 16, 17, 300}) {
      TaskQueue queue, other;
      for (uint64_t i = 0; i < first; ++i) queue.push_back(Numbered(i));
      for (uint64_t i = 0; i < second; ++i) other.push_back(Numbered(first + i));
      queue.Append(&other);
      EXPECT_TRUE(other.empty());
      // Both go on.
      other.push_back(Numbered(7));
      queue.push_back(Numbered(first + second));
      EXPECT_EQ(Take(&queue), From(0, first + second + 1));
      EXPECT_EQ(Take(&other), From(7, 1));
    }
  }
}

// What a task holds is given up with it, and not with those that lie beside it.
TEST(TaskQueueTest, ATaskIsGoneWhenItWasTaken) {
  const auto payload = std::make_shared<const std::string>("payload");
  TaskQueue queue;
  for (uint64_t i = 0; i < 10; ++i) {
    Task task = Numbered(i);
    task.payload = payload;
    queue.push_back(std::move(task));
  }
  EXPECT_EQ(payload.use_count(), 11);
  queue.pop_front();
  queue.pop_front();
  EXPECT_EQ(payload.use_count(), 9);
  queue.clear();
  EXPECT_EQ(payload.use_count(), 1);
  EXPECT_TRUE(queue.empty());
  {
    TaskQueue ends;
    Task task = Numbered(1);
    task.payload = payload;
    ends.push_back(std::move(task));
  }
  EXPECT_EQ(payload.use_count(), 1);
}

TEST(TaskQueueTest, AllOfLooksAtEachTask) {
  TaskQueue queue;
  EXPECT_TRUE(queue.AllOf([](const Task&) { return false; }));
  for (uint64_t i = 0; i < 30; ++i) queue.push_back(Numbered(i));
  EXPECT_TRUE(queue.AllOf([](const Task& task) { return task.seq < 30; }));
  EXPECT_FALSE(queue.AllOf([](const Task& task) { return task.seq < 29; }));
  EXPECT_FALSE(queue.AllOf([](const Task& task) { return task.seq > 0; }));
}

}  // namespace
}  // namespace warpline::worker
