#include "server/worker/executors/task_engine.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "proto/frames.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kHost = kHostArenaBase + 4096;
constexpr uint64_t kDevice = 0x10000;

template <typename Command>
EngineWork WorkOf(const Command& command, uint64_t tail_bytes = 0) {
  const std::string tail(tail_bytes, 't');
  Task task;
  task.id = CommandTraits<Command>::kId;
  task.command = command;
  task.tail = tail;
  return EngineWorkOf(task);
}

void ExpectWork(const EngineWork& work, Engine engine, uint64_t bytes) {
  EXPECT_EQ(work.engine, engine);
  EXPECT_EQ(work.bytes, bytes);
}

TEST(TaskEngineTest, WhatCopiesToOrFromTheHostAsksItsEngineWhateverItIsCalled) {
  cmd::CopyOnDevice plain;
  plain.dst = kDevice;
  plain.src = kHost;
  plain.bytes = 1 << 20;
  ExpectWork(WorkOf(plain), Engine::kCopyIn, 1 << 20);
  cmd::CopyBoxOnDevice box;
  box.dst = kDevice;
  box.src = kHost;
  box.width = 1 << 20;
  box.height = 2;
  box.depth = 3;
  ExpectWork(WorkOf(box), Engine::kCopyIn, 6 << 20);
  std::swap(box.dst, box.src);
  ExpectWork(WorkOf(box), Engine::kCopyOut, 6 << 20);
  cmd::CopyDeviceToArray to_array;
  to_array.src = kHost;
  to_array.width = to_array.height = to_array.depth = 10;
  ExpectWork(WorkOf(to_array), Engine::kCopyIn, 1000);
  cmd::CopyArrayToDevice from_array;
  from_array.dst = kHost;
  from_array.width = from_array.height = from_array.depth = 10;
  ExpectWork(WorkOf(from_array), Engine::kCopyOut, 1000);
  cmd::CopyFromArray read;
  read.width = read.height = read.depth = 10;
  ExpectWork(WorkOf(read), Engine::kCopyOut, 1000);
  ExpectWork(WorkOf(cmd::CopyToArray{}, 1000), Engine::kCopyIn, 1000);
  ExpectWork(WorkOf(cmd::CopyToDevice{}, 8), Engine::kCopyIn, 8);
}

TEST(TaskEngineTest, WhatStaysOnTheDeviceComputes) {
  cmd::CopyBoxOnDevice box;
  box.dst = box.src = kDevice;
  box.width = box.height = box.depth = 10;
  ExpectWork(WorkOf(box), Engine::kCompute, 0);
  cmd::CopyDeviceToArray to_array;
  to_array.src = kDevice;
  to_array.width = to_array.height = to_array.depth = 10;
  ExpectWork(WorkOf(to_array), Engine::kCompute, 0);
  ExpectWork(WorkOf(cmd::Launch{}, 12), Engine::kCompute, 0);
}

TEST(TaskEngineTest, AnAbsurdBoxIsNotASmallOne) {
  cmd::CopyBoxOnDevice box;
  box.src = kHost;
  box.width = box.height = uint64_t{1} << 32;
  box.depth = 1;
  EXPECT_GE(WorkOf(box).bytes, 1u << 30);
}

}  // namespace
}  // namespace warpline::worker
