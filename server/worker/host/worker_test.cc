// A worker that only reads, on two CPU devices: what it is asked of memory goes to the right one.
#include "server/worker/host/worker.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "common/log/log.h"
#include "common/log/log_capture.h"
#include "gtest/gtest.h"
#include "proto/devices.h"
#include "server/worker/host/memory_requests.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kChunk = 2u << 20;
constexpr uint64_t kArenaBytes = 4ull << 30;
constexpr uint64_t kPart = DeviceArenaBytes(kArenaBytes, 2);
constexpr uint64_t kArenaBase = 0x300000000000;

UniqueFd Memory(uint64_t bytes, const std::string& contents) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(pwrite(fd.get(), contents.data(), contents.size(), 0),
            static_cast<ssize_t>(contents.size()));
  return fd;
}

warpline_internal::OpenWorker OpenOn(const std::vector<int>& ordinals) {
  warpline_internal::OpenWorker open;
  open.set_backend("cpu:2");
  open.set_ordinal(ordinals[0]);
  for (size_t i = 1; i < ordinals.size(); ++i) open.add_more_ordinals(ordinals[i]);
  open.set_reader(true);
  open.set_arena_base(kArenaBase);
  open.set_arena_bytes(kArenaBytes);
  return open;
}

CudaResult Map(uint64_t va, const std::vector<uint64_t>& chunks, Worker* worker,
               const std::string& contents = "") {
  warpline_internal::MapMemory map;
  map.set_va(va);
  std::vector<UniqueFd> fds;
  for (const uint64_t bytes : chunks) {
    map.add_chunk_bytes(bytes);
    fds.push_back(Memory(kChunk, contents));
  }
  return MapMemory(map, fds, worker);
}

std::string Read(uint64_t va, uint64_t bytes, Worker* worker, CudaResult* result) {
  warpline_internal::ReadMemory read;
  read.set_va(va);
  read.set_bytes(bytes);
  std::vector<UniqueFd> fds;
  fds.push_back(Memory(bytes, ""));
  *result = ReadMemory(read, fds, worker);
  std::string text(bytes, '\0');
  EXPECT_EQ(pread(fds[0].get(), text.data(), bytes, 0), static_cast<ssize_t>(bytes));
  return text;
}

TEST(WorkerTest, MemoryIsTheDevicesInWhosePartItLies) {
  Worker worker;
  EXPECT_EQ(Map(kArenaBase, {kChunk}, &worker), CudaResult::kIllegalState);
  ASSERT_TRUE(Open(OpenOn({1, 0}), {}, &worker).ok());
  ASSERT_EQ(worker.contexts.size(), 2u);
  EXPECT_EQ(Map(kArenaBase, {kChunk}, &worker, "first"), CudaResult::kSuccess);
  EXPECT_EQ(Map(kArenaBase + kPart, {kChunk, kChunk}, &worker, "second"), CudaResult::kSuccess);
  CudaResult result;
  EXPECT_EQ(Read(kArenaBase, 5, &worker, &result), "first");
  EXPECT_EQ(result, CudaResult::kSuccess);
  EXPECT_EQ(Read(kArenaBase + kPart + kChunk, 6, &worker, &result), "second");
  EXPECT_EQ(result, CudaResult::kSuccess);
  warpline_internal::UnmapMemory unmap;
  unmap.set_va(kArenaBase);
  unmap.add_chunk_bytes(kChunk);
  EXPECT_EQ(UnmapMemory(unmap, &worker), CudaResult::kSuccess);
  Read(kArenaBase, 5, &worker, &result);
  EXPECT_EQ(result, CudaResult::kInvalidValue);
}

TEST(WorkerTest, AQuietOneSaysNothing) {
  LogCapture log;
  Worker worker;
  warpline_internal::OpenWorker open = OpenOn({0});
  open.set_quiet(true);
  LogInfo("before");
  ASSERT_TRUE(Open(open, {}, &worker).ok());
  LogError("after");
  SetLogLevel(LogLevel::kInfo);
  EXPECT_EQ(log.LinesWith("before").size(), 1u);
  EXPECT_EQ(log.LinesWith("after").size(), 0u);
}

TEST(WorkerTest, NothingIsMappedBesideTheDevicesParts) {
  Worker worker;
  ASSERT_TRUE(Open(OpenOn({0, 1}), {}, &worker).ok());
  for (const uint64_t va :
       {kArenaBase - kChunk, kArenaBase + kPart - kChunk, kArenaBase + kArenaBytes - kChunk,
        kArenaBase + kArenaBytes, uint64_t{0}, ~uint64_t{0} - kChunk}) {
    EXPECT_EQ(Map(va, {kChunk, kChunk}, &worker), CudaResult::kInvalidValue) << va;
  }
  EXPECT_EQ(Map(kArenaBase, {~uint64_t{0}, kChunk}, &worker), CudaResult::kInvalidValue);
  CudaResult result;
  Read(kArenaBase + kPart - 4, 8, &worker, &result);
  EXPECT_EQ(result, CudaResult::kInvalidValue);
  EXPECT_EQ(Open(OpenOn({0, 1}), {}, &worker).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(WorkerTest, TheDevicesAreThoseThatItWasPreparedFor) {
  Worker worker;
  warpline_internal::PrepareWorker prepare;
  prepare.set_backend("cpu:2");
  prepare.set_ordinal(1);
  ASSERT_TRUE(Prepare(prepare, &worker).ok());
  EXPECT_TRUE(Prepare(prepare, &worker).ok());
  EXPECT_EQ(Open(OpenOn({1, 0}), {}, &worker).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(WorkerTest, DevicesAreNamedOnceAndAreThere) {
  for (const std::vector<int>& ordinals : std::vector<std::vector<int>>{{0, 0}, {0, 2}, {-1}}) {
    Worker worker;
    EXPECT_FALSE(Open(OpenOn(ordinals), {}, &worker).ok());
    EXPECT_EQ(Map(kArenaBase, {kChunk}, &worker), CudaResult::kInvalidValue);
  }
  Worker worker;
  EXPECT_FALSE(Open(OpenOn(std::vector<int>(17, 0)), {}, &worker).ok());
}

}  // namespace
}  // namespace warpline::worker
