// Tests every backend with one suite: what a worker and a keeper rely on.
#include "server/device/device.h"

#include <fcntl.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/cuda/cuda_numbers.h"
#include "common/cuda/sm_path.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "server/device/testing/device_fixture.h"

namespace warpline::device {
namespace {

using DeviceTest = DeviceFixture;

TEST_P(DeviceTest, TellsWhatItIs) {
  const auto info = backend_->Info(0);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_FALSE(info->name.empty());
  EXPECT_GE(info->driver_version, 12000);
  EXPECT_GT(info->total_bytes, 0u);
  bool warp = false;
  for (const auto& [id, value] : info->attributes) warp |= id == 10 && value == 32;
  EXPECT_TRUE(warp);
}

TEST_P(DeviceTest, MemsetsAndCopies) {
  ASSERT_EQ(context_->Memset(memory_, 0x01020304, 4, 8, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(context_->Memset(memory_ + 4, 0xaabb, 2, 2, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(context_->Memset(memory_ + 8, 0x7f, 1, 4, kLegacyStream), CudaResult::kSuccess);
  Write(memory_ + 12, {77}, kLegacyStream);
  ASSERT_EQ(context_->CopyOnDevice(memory_ + 16, memory_ + 4, 8, kLegacyStream),
            CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_, 7), (std::vector<uint32_t>{0x01020304, 0xaabbaabb, 0x7f7f7f7f, 77,
                                                     0xaabbaabb, 0x7f7f7f7f, 0x01020304}));
}

TEST_P(DeviceTest, AFrameRunsTheBodyThatItsConditionNames) {
  FrameId frame{};
  if (context_->CreateFrame(&frame) == CudaResult::kNotSupported) GTEST_SKIP() << "no frames";
  uint64_t conditional = 0;
  ASSERT_EQ(context_->AddConditional(frame, /*first_value=*/1, /*flags=*/1, &conditional),
            CudaResult::kSuccess);
  const auto set = [this](uint32_t body, uint64_t offset, uint32_t value) {
    GraphNode node;
    node.kind = GraphNode::Kind::kMemset;
    node.body = body;
    node.dst = {memory_ + offset, 0, 0};
    node.value = value;
    node.width = 4;
    node.columns = 1;
    node.rows = 1;
    return node;
  };
  GraphNode choice;
  choice.kind = GraphNode::Kind::kConditional;
  choice.conditional = conditional;
  choice.bodies = 2;
  const std::vector<GraphNode> nodes = {choice, set(1, 0, 5), set(2, 4, 6), set(0, 8, 7)};
  ASSERT_EQ(context_->Memset(memory_, 0, 4, 3, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(context_->FillFrame(frame, nodes), CudaResult::kSuccess);
  GraphId graph{};
  ASSERT_EQ(context_->CreateGraphOf(frame, &graph), CudaResult::kSuccess);
  EXPECT_EQ(context_->DestroyFrame(frame), CudaResult::kSuccess);
  ASSERT_EQ(context_->LaunchGraph(graph, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_, 3), (std::vector<uint32_t>{5, 0, 7}));
  EXPECT_EQ(context_->DestroyGraph(graph), CudaResult::kSuccess);
}

TEST_P(DeviceTest, SetsRowsAndLeavesWhatIsBetween) {
  ASSERT_EQ(context_->Memset(memory_, 1, 4, 64, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(context_->MemsetRows(memory_, 16, 0x0202, 2, 4, 3, kLegacyStream),
            CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_, 8),
            (std::vector<uint32_t>{0x02020202, 0x02020202, 1, 1, 0x02020202, 0x02020202, 1, 1}));
  ASSERT_EQ(context_->MemsetRows(memory_, 16, 7, 4, 1, 3, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(context_->MemsetRows(memory_ + 4, 16, 8, 1, 4, 1, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_, 5), (std::vector<uint32_t>{7, 0x08080808, 1, 1, 7}));
  EXPECT_EQ(context_->MemsetRows(memory_, 16, 7, 3, 1, 3, kLegacyStream),
            CudaResult::kInvalidValue);
  EXPECT_EQ(context_->MemsetRows(memory_, 8, 7, 4, 3, 3, kLegacyStream), CudaResult::kInvalidValue);
}

TEST_P(DeviceTest, BoxesKeepTheirRowsAndSlices) {
  ASSERT_EQ(context_->Memset(memory_, 0, 4, 1024, kLegacyStream), CudaResult::kSuccess);
  const BoxExtent extent = {8, 2, 2};
  auto* const words = static_cast<uint32_t*>(staging_);
  for (uint32_t i = 0; i < 8; ++i) words[i] = i + 1;
  // Rows of 16 bytes, and slices of three of them.
  const BoxPlace place = {memory_, 16, 48};
  ASSERT_EQ(context_->CopyBoxToDevice(place, staging_, extent, kLegacyStream),
            CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_, 18),
            (std::vector<uint32_t>{1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 5, 6, 0, 0, 7, 8}));
  const BoxPlace other = {memory_ + 1024, 32, 64};
  ASSERT_EQ(context_->CopyBoxOnDevice(other, place, extent, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_ + 1024 + 64, 2), (std::vector<uint32_t>{5, 6}));
  std::memset(staging_, 0, 64);
  ASSERT_EQ(context_->CopyBoxFromDevice(staging_, other, extent, kLegacyStream),
            CudaResult::kSuccess);
  ASSERT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(words[i], i + 1);
}

TEST_P(DeviceTest, OneRowNeedsNoPitch) {
  static_cast<uint32_t*>(staging_)[0] = 11;
  const BoxPlace place = {memory_, 4, 0};
  ASSERT_EQ(context_->CopyBoxToDevice(place, staging_, {4, 1, 1}, kLegacyStream),
            CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_, 1), (std::vector<uint32_t>{11}));
}

TEST_P(DeviceTest, RefusesWhatIsNoBox) {
  const BoxExtent extent = {8, 2, 2};
  for (const BoxPlace& place : {BoxPlace{memory_, 4, 48}, BoxPlace{memory_, 16, 16},
                                BoxPlace{memory_, 16, 40}, BoxPlace{16, 16, 48}}) {
    EXPECT_EQ(context_->CopyBoxToDevice(place, staging_, extent, kLegacyStream),
              CudaResult::kInvalidValue)
        << place.address << " " << place.pitch << " " << place.slice;
  }
}

TEST_P(DeviceTest, StreamsWaitForWordsThatOthersWrite) {
  StreamId waiter, writer;
  ASSERT_EQ(context_->CreateStream(kStreamNonBlocking, 0, &waiter), CudaResult::kSuccess);
  ASSERT_EQ(context_->CreateStream(kStreamNonBlocking, 0, &writer), CudaResult::kSuccess);
  ASSERT_EQ(context_->Memset(memory_, 0, 4, 64, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
  constexpr uint32_t kEqual = 1;
  const MemOp wait[] = {{MemOp::kWait32, kEqual, memory_, 7},
                        {MemOp::kWait64, kEqual, memory_ + 8, 1ull << 40},
                        {MemOp::kWrite32, 0, memory_ + 4, 9}};
  ASSERT_EQ(context_->MemOps(wait, waiter), CudaResult::kSuccess);
  EventId event;
  ASSERT_EQ(context_->CreateEvent(2, &event), CudaResult::kSuccess);
  ASSERT_EQ(context_->RecordEvent(event, waiter), CudaResult::kSuccess);
  const MemOp first[] = {{MemOp::kWrite32, 0, memory_, 7}};
  ASSERT_EQ(context_->MemOps(first, writer), CudaResult::kSuccess);
  ASSERT_EQ(Sync(writer), CudaResult::kSuccess);
  EXPECT_EQ(context_->QueryEvent(event), CudaResult::kNotReady);
  const MemOp second[] = {{MemOp::kBarrier, 0, 0, 0},
                          {MemOp::kWrite64, 0, memory_ + 8, 1ull << 40}};
  ASSERT_EQ(context_->MemOps(second, writer), CudaResult::kSuccess);
  EXPECT_EQ(WaitFor(event), CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_, 2), (std::vector<uint32_t>{7, 9}));
  context_->DestroyEvent(event);
  context_->DestroyStream(waiter);
  context_->DestroyStream(writer);
}

TEST_P(DeviceTest, WaitsForWordsCompareAsCudaSays) {
  Write(memory_, {5, 0xfffffffe, 0xffffffff}, kLegacyStream);
  constexpr uint32_t kGreaterOrEqual = 0, kAnd = 2, kNor = 3;
  const MemOp hold[] = {{MemOp::kWait32, kGreaterOrEqual, memory_, 5},
                        {MemOp::kWait32, kGreaterOrEqual, memory_, 0xfffffff0},
                        {MemOp::kWait32, kAnd, memory_ + 4, 6},
                        {MemOp::kWait32, kNor, memory_ + 4, 0}};
  ASSERT_EQ(context_->MemOps(hold, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
}

TEST_P(DeviceTest, RefusesWordsOutsideTheArena) {
  uint32_t local = 0;
  for (const MemOp& op :
       {MemOp{MemOp::kWrite32, 0, memory_ + 2, 1}, MemOp{MemOp::kWrite64, 0, memory_ + 4, 1},
        MemOp{MemOp::kWrite32, 0, reinterpret_cast<uint64_t>(&local), 1},
        MemOp{MemOp::kWrite32, 0, reinterpret_cast<uint64_t>(staging_), 1},
        MemOp{77, 0, memory_, 1}}) {
    EXPECT_EQ(context_->MemOps({&op, 1}, kLegacyStream), CudaResult::kInvalidValue) << op.kind;
  }
  EXPECT_EQ(context_->MemOps({}, kLegacyStream), CudaResult::kInvalidValue);
}

TEST_P(DeviceTest, RunsAKernelWithGlobalsAndConstants) {
  std::vector<uint32_t> in(1000);
  for (size_t i = 0; i < in.size(); ++i) in[i] = i * 7;
  Write(memory_, in, kLegacyStream);
  const uint64_t out = memory_ + uint64_t{64} * 1024;
  ASSERT_EQ(Launch(Find("scale"), {{8, 1, 1}, {128, 1, 1}, 0}, kLegacyStream, out, memory_, 1000u),
            CudaResult::kSuccess);
  const std::vector<uint32_t> got = Read(out, in.size());
  for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(got[i], uint64_t{in[i]} * 3 + (i & 3) + 1) << i;
}

TEST_P(DeviceTest, TellsLayoutAttributesAndGlobals) {
  const KernelId kernel = Find("scale");
  std::vector<ParamLayout> params;
  ASSERT_EQ(context_->Params(kernel, &params), CudaResult::kSuccess);
  ASSERT_EQ(params.size(), 3u);
  EXPECT_EQ(params[2].offset, 16u);
  EXPECT_EQ(params[2].size, 4u);
  int value = 0;
  EXPECT_EQ(context_->GetKernelAttribute(kernel, 0, &value), CudaResult::kSuccess);
  EXPECT_EQ(value, 1024);
  int blocks = 0;
  EXPECT_EQ(context_->MaxActiveBlocks(kernel, 256, 0, 0, &blocks), CudaResult::kSuccess);
  EXPECT_GT(blocks, 0);
  uint64_t address = 0;
  uint64_t bytes = 0;
  ASSERT_EQ(context_->FindGlobal(module_, "table", &address, &bytes), CudaResult::kSuccess);
  EXPECT_EQ(bytes, 16u);
  EXPECT_EQ(Read(address, 4), (std::vector<uint32_t>{1, 2, 3, 4}));
  EXPECT_EQ(context_->FindGlobal(module_, "absent", &address, &bytes), CudaResult::kNotFound);
  KernelId absent{};
  EXPECT_EQ(context_->FindKernel(module_, "absent", &absent), CudaResult::kNotFound);
  std::vector<std::string> names;
  ASSERT_EQ(context_->Kernels(module_, &names), CudaResult::kSuccess);
  EXPECT_EQ(names.size(), 3u);
}

TEST_P(DeviceTest, StreamsRunApartAndEventsOrderThem) {
  StreamId stalled{};
  StreamId other{};
  ASSERT_EQ(context_->CreateStream(kStreamNonBlocking, 0, &stalled), CudaResult::kSuccess);
  ASSERT_EQ(context_->CreateStream(kStreamNonBlocking, 0, &other), CudaResult::kSuccess);
  Write(memory_, {0, 0, 0, 0}, kLegacyStream);
  ASSERT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
  const KernelId spin = Find("spin");
  ASSERT_EQ(Launch(spin, {{1, 1, 1}, {1, 1, 1}, 0}, stalled, memory_), CudaResult::kSuccess);
  EventId done{};
  ASSERT_EQ(context_->CreateEvent(2, &done), CudaResult::kSuccess);
  ASSERT_EQ(context_->RecordEvent(done, stalled), CudaResult::kSuccess);
  EXPECT_EQ(context_->QueryEvent(done), CudaResult::kNotReady);
  Write(memory_, {1}, other);
  // What follows the event on the other stream sees what the stalled kernel stored.
  ASSERT_EQ(context_->WaitEvent(other, done), CudaResult::kSuccess);
  ASSERT_EQ(context_->CopyOnDevice(memory_ + 8, memory_ + 4, 4, other), CudaResult::kSuccess);
  ASSERT_EQ(Sync(other), CudaResult::kSuccess);
  EXPECT_EQ(context_->QueryEvent(done), CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_ + 8, 1)[0], 1u);
  context_->DestroyEvent(done);
  context_->DestroyStream(stalled);
  context_->DestroyStream(other);
}

TEST_P(DeviceTest, LegacyStreamWaitsForBlockingStreamsOnly) {
  StreamId blocking{};
  ASSERT_EQ(context_->CreateStream(0, 0, &blocking), CudaResult::kSuccess);
  Write(memory_, {0, 0}, kLegacyStream);
  ASSERT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
  const KernelId spin = Find("spin");
  StreamId helper{};
  ASSERT_EQ(context_->CreateStream(kStreamNonBlocking, 0, &helper), CudaResult::kSuccess);
  ASSERT_EQ(Launch(spin, {{1, 1, 1}, {1, 1, 1}, 0}, blocking, memory_), CudaResult::kSuccess);
  // The copy comes after the spinning kernel by the rule of the legacy stream.
  ASSERT_EQ(context_->CopyOnDevice(memory_ + 8, memory_ + 4, 4, kLegacyStream),
            CudaResult::kSuccess);
  EventId legacy{};
  ASSERT_EQ(context_->CreateEvent(2, &legacy), CudaResult::kSuccess);
  ASSERT_EQ(context_->RecordEvent(legacy, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(context_->QueryEvent(legacy), CudaResult::kNotReady);
  Write(memory_, {1}, helper);
  EXPECT_EQ(WaitFor(legacy), CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_ + 8, 1)[0], 1u);
  context_->DestroyEvent(legacy);
  context_->DestroyStream(blocking);
  context_->DestroyStream(helper);
}

TEST_P(DeviceTest, TimingEventsMeasure) {
  EventId start{};
  EventId end{};
  ASSERT_EQ(context_->CreateEvent(0, &start), CudaResult::kSuccess);
  ASSERT_EQ(context_->CreateEvent(0, &end), CudaResult::kSuccess);
  ASSERT_EQ(context_->RecordEvent(start, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(context_->Memset(memory_, 1, 1, kMiB, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(context_->RecordEvent(end, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(WaitFor(end), CudaResult::kSuccess);
  float ms = -1;
  EXPECT_EQ(context_->ElapsedMs(start, end, &ms), CudaResult::kSuccess);
  EXPECT_GE(ms, 0);
  context_->DestroyEvent(start);
  context_->DestroyEvent(end);
}

TEST_P(DeviceTest, RefusesBadGeometryAndBadPointers) {
  const KernelId kernel = Find("scale");
  for (const LaunchConfig& config :
       {LaunchConfig{{0, 1, 1}, {1, 1, 1}, 0}, LaunchConfig{{1, 1, 1}, {0, 1, 1}, 0},
        LaunchConfig{{1, 1, 1}, {2048, 1, 1}, 0}, LaunchConfig{{1, 1, 1}, {1, 1, 65}, 0},
        LaunchConfig{{1, 70000, 1}, {1, 1, 1}, 0}, LaunchConfig{{1, 1, 1}, {1, 1, 1}, 1u << 20}}) {
    EXPECT_EQ(Launch(kernel, config, kLegacyStream, memory_, memory_, 0u),
              CudaResult::kInvalidValue);
  }
  const uint64_t unmapped = base_ + 1024 * kMiB;
  EXPECT_EQ(context_->CopyToDevice(unmapped, "x", 1, kLegacyStream), CudaResult::kInvalidValue);
  EXPECT_EQ(context_->CopyFromDevice(staging_, unmapped, 1, kLegacyStream),
            CudaResult::kInvalidValue);
  EXPECT_EQ(context_->MapChunk(memory_, 2 * kMiB, fd_.get()), CudaResult::kInvalidValue);
  ModuleId bad{};
  const CudaResult loaded = context_->LoadModule("no image at all", &bad);
  EXPECT_TRUE(loaded != CudaResult::kSuccess || context_->CheckModule(bad) != CudaResult::kSuccess);
  EXPECT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
}

TEST_P(DeviceTest, MemorySurvivesItsMappingAndScrubbingClearsIt) {
  Write(memory_, {1, 2, 3}, kLegacyStream);
  ASSERT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(context_->UnmapChunk(memory_, 2 * kMiB), CudaResult::kSuccess);
  ASSERT_EQ(context_->MapChunk(memory_ + 64 * kMiB, 2 * kMiB, fd_.get()), CudaResult::kSuccess);
  memory_ += 64 * kMiB;
  EXPECT_EQ(Read(memory_, 3), (std::vector<uint32_t>{1, 2, 3}));
  ASSERT_TRUE(chunks_->ScrubChunk(fd_.get(), 2 * kMiB).ok());
  EXPECT_EQ(Read(memory_, 3), (std::vector<uint32_t>{0, 0, 0}));
}

TEST_P(DeviceTest, ClosedChunksShowInTheCountOfFreeMemory) {
  // Other processes may be at work on the device; what they take in between is less than this.
  constexpr uint64_t kChunk = 4096 * kMiB;
  const auto before = chunks_->FreeBytes();
  ASSERT_TRUE(before.ok()) << before.status();
  if (!before->has_value()) return;  // Memory is free as soon as it is closed.
  auto chunk = chunks_->CreateChunk(kChunk);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  const UniqueFd kept(fcntl(chunk->get(), F_DUPFD_CLOEXEC, 0));
  const auto free = [&] { return chunks_->FreeBytes().value().value(); };
  EXPECT_LE(free(), **before - kChunk / 2);
  chunk->Reset(-1);
  // Somebody has it still.
  EXPECT_LE(free(), **before - kChunk / 2);
}

TEST_P(DeviceTest, MemoryIsFreeOnceItsLastDescriptorIsClosed) {
  constexpr uint64_t kChunk = 4096 * kMiB;
  const auto before = chunks_->FreeBytes();
  ASSERT_TRUE(before.ok()) << before.status();
  if (!before->has_value()) return;
  auto chunk = chunks_->CreateChunk(kChunk);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  ASSERT_TRUE(chunks_->ScrubChunk(chunk->get(), kChunk).ok());
  chunk->Reset(-1);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (chunks_->FreeBytes().value().value() < **before - kChunk / 2 && absl::Now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_GE(chunks_->FreeBytes().value().value(), **before - kChunk / 2);
}

TEST_P(DeviceTest, StrayAccessesOfASinkDoNoHarm) {
  const uint64_t sink = base_ + 64 * kMiB;
  ASSERT_EQ(context_->MapSink(sink, 4 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(Read(sink, 2), (std::vector<uint32_t>{0, 0}));
  EXPECT_EQ(Read(sink + 4 * kMiB - 8, 2), (std::vector<uint32_t>{0, 0}));
  Write(sink + 2 * kMiB, {1}, kLegacyStream);
  Write(memory_, {4, 5}, kLegacyStream);
  EXPECT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_, 2), (std::vector<uint32_t>{4, 5}));
  // A sink can be mapped neither over what is there nor outside the arena.
  EXPECT_EQ(context_->MapSink(memory_, 2 * kMiB), CudaResult::kInvalidValue);
  // A chunk takes its place, and nothing of it is left.
  ASSERT_EQ(context_->MapChunk(sink + 2 * kMiB, 2 * kMiB, fd_.get()), CudaResult::kSuccess);
  EXPECT_EQ(Read(sink + 2 * kMiB, 2), (std::vector<uint32_t>{4, 5}));
  EXPECT_EQ(context_->MapSink(sink + 2 * kMiB, 2 * kMiB), CudaResult::kInvalidValue);
  EXPECT_EQ(context_->UnmapChunk(sink + 2 * kMiB, 2 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(context_->MapSink(sink, 4 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_, 2), (std::vector<uint32_t>{4, 5}));
  EXPECT_EQ(context_->MapSink(base_ + kArenaBytes, 2 * kMiB), CudaResult::kInvalidValue);
  EXPECT_EQ(context_->MapSink(sink + 8 * kMiB, kMiB), CudaResult::kInvalidValue);
}

TEST_P(DeviceTest, OneChunkIsMappedTwiceWithItsOwnAccessAtEachPlace) {
  const uint64_t twin = memory_ + 64 * kMiB;
  ASSERT_EQ(context_->MapChunk(twin, 2 * kMiB, fd_.get()), CudaResult::kSuccess);
  ASSERT_EQ(context_->SetChunkAccess(twin, 2 * kMiB, MemoryAccess::kRead), CudaResult::kSuccess);
  Write(memory_, {4, 5}, kLegacyStream);
  ASSERT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(twin, 2), (std::vector<uint32_t>{4, 5}));
  EXPECT_NE(context_->SetChunkAccess(twin + 64 * kMiB, 2 * kMiB, MemoryAccess::kRead),
            CudaResult::kSuccess);
  ASSERT_EQ(context_->SetChunkAccess(twin, 2 * kMiB, MemoryAccess::kReadWrite),
            CudaResult::kSuccess);
  Write(twin, {6}, kLegacyStream);
  ASSERT_EQ(Sync(kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(memory_, 2), (std::vector<uint32_t>{6, 5}));
  EXPECT_EQ(context_->UnmapChunk(twin, 2 * kMiB), CudaResult::kSuccess);
}

// Returns a split into groups of the smallest size, of which the first is taken.
SmStep SmallestGroup(const SmPart& whole, uint32_t groups) {
  SmStep split;
  split.least = whole.smallest;
  split.groups = groups;
  split.Take(0);
  return split;
}

TEST_P(DeviceTest, ASplitGivesAllThatItIsGiven) {
  SmSplitResult whole;
  ASSERT_EQ(context_->Split({}, SmStep(), &whole), CudaResult::kSuccess);
  EXPECT_GE(whole.whole.count, whole.whole.smallest);
  EXPECT_GT(whole.whole.smallest, 0u);
  EXPECT_EQ(whole.count, 0u);
  SmStep split = SmallestGroup(whole.whole, kMaxSmGroups);
  SmSplitResult parts;
  ASSERT_EQ(context_->Split({}, split, &parts), CudaResult::kSuccess);
  EXPECT_EQ(parts.whole.count, whole.whole.count);
  ASSERT_GE(parts.count, 1u);
  ASSERT_EQ(parts.groups.size(), parts.count);
  uint32_t sum = parts.rest.count;
  for (const SmPart& group : parts.groups) sum += group.count;
  EXPECT_EQ(sum, whole.whole.count);
  split.groups = kCountSmGroups;
  SmSplitResult counted;
  ASSERT_EQ(context_->Split({}, split, &counted), CudaResult::kSuccess);
  EXPECT_EQ(counted.count, parts.count);
  EXPECT_TRUE(counted.groups.empty());
  split.least = whole.whole.count + 1;
  split.groups = 1;
  EXPECT_NE(context_->Split({}, split, &counted), CudaResult::kSuccess);
}

TEST_P(DeviceTest, StreamsOfAPartitionWork) {
  SmSplitResult whole;
  ASSERT_EQ(context_->Split({}, SmStep(), &whole), CudaResult::kSuccess);
  const SmStep group = SmallestGroup(whole.whole, 1);
  PartitionId partition{};
  ASSERT_EQ(context_->CreatePartition({group}, &partition), CudaResult::kSuccess);
  // A part of it, and a path that leads nowhere.
  PartitionId part{};
  EXPECT_EQ(context_->CreatePartition({group, group}, &part), CudaResult::kSuccess);
  SmStep beyond = group;
  beyond.groups = kMaxSmGroups;
  beyond.Take(kMaxSmGroups - 1);
  PartitionId none{};
  EXPECT_NE(context_->CreatePartition({beyond}, &none), CudaResult::kSuccess);
  for (const PartitionId of : {partition, part}) {
    StreamId stream{};
    ASSERT_EQ(context_->CreateStreamIn(of, 0, &stream), CudaResult::kSuccess);
    EXPECT_EQ(Launch(Find("store"), {{1, 1, 1}, {1, 1, 1}, 0}, stream, memory_),
              CudaResult::kSuccess);
    EXPECT_EQ(Sync(stream), CudaResult::kSuccess);
    EXPECT_EQ(context_->DestroyStream(stream), CudaResult::kSuccess);
    EXPECT_EQ(context_->DestroyPartition(of), CudaResult::kSuccess);
  }
}

TEST_P(DeviceTest, PartitionsKeepToTheirLimit) {
  SmSplitResult whole;
  ASSERT_EQ(context_->Split({}, SmStep(), &whole), CudaResult::kSuccess);
  // A context of its own, since a limit comes before everything else.
  auto limited = backend_->OpenContext(0);
  ASSERT_TRUE(limited.ok()) << limited.status();
  (*limited)->LimitPartitions(whole.whole.smallest);
  SmSplitResult part;
  ASSERT_EQ((*limited)->Split({}, SmStep(), &part), CudaResult::kSuccess);
  EXPECT_EQ(part.whole.count, whole.whole.smallest);
  const SmStep group = SmallestGroup(part.whole, 1);
  PartitionId partition{};
  ASSERT_EQ((*limited)->CreatePartition({group}, &partition), CudaResult::kSuccess);
  EXPECT_EQ((*limited)->DestroyPartition(partition), CudaResult::kSuccess);
}

// A capability that a context does not claim is refused, and the others are not.
TEST_P(DeviceTest, WhatCapabilitiesLackIsNotSupported) {
  const Capabilities can = context_->capabilities();
  LaunchConfig config;
  config.grid = {1, 1, 1};
  config.block = {32, 1, 1};
  ArrayShape shape;
  shape.width = 16;
  shape.format = 0x20;  // CU_AD_FORMAT_FLOAT
  shape.channels = 1;
  LinkId link{};
  ArrayId array{};
  GraphId graph{};
  TensorMapBytes map{};
  uint64_t texture = 0, block = 0;
  int clusters = 0;
  SmSplitResult parts;
  const std::pair<Capability, CudaResult> tried[] = {
      {Capability::kLinks, context_->CreateLink({}, &link)},
      {Capability::kArrays, context_->CreateArray(&shape, &array)},
      {Capability::kTextures, context_->CreateTexture(Texture(), &texture)},
      {Capability::kTensorMaps, context_->EncodeTensorMap(TensorMap(), &map)},
      {Capability::kGraphs, context_->CreateGraph({}, &graph)},
      {Capability::kClusters, context_->MaxActiveClusters(Find("store"), config, &clusters)},
      {Capability::kVariableBlocks, context_->TakeBlock(&block)},
      {Capability::kPartitions, context_->Split({}, SmStep(), &parts)},
  };
  for (const auto& [capability, result] : tried) {
    EXPECT_EQ(result != CudaResult::kNotSupported, can.Has(capability))
        << NamesOf(capability) << ", of " << NamesOf(can);
  }
  if (can.Has(Capability::kLinks)) context_->DestroyLink(link);
  if (can.Has(Capability::kArrays)) context_->DestroyArray(array);
  if (can.Has(Capability::kGraphs)) context_->DestroyGraph(graph);
  if (can.Has(Capability::kVariableBlocks)) context_->FreeBlock(block);
}

// This is the last test in its process for a real GPU, because the fault ends every context of the
// process.
TEST_P(DeviceTest, ZZIllegalAddressIsSticky) {
  const KernelId store = Find("store");
  ASSERT_EQ(Launch(store, {{1, 1, 1}, {1, 1, 1}, 0}, kLegacyStream, base_ + 1024 * kMiB),
            CudaResult::kSuccess);
  EXPECT_EQ(Sync(kLegacyStream), CudaResult::kIllegalAddress);
  EXPECT_EQ(Launch(store, {{1, 1, 1}, {1, 1, 1}, 0}, kLegacyStream, memory_),
            CudaResult::kIllegalAddress);
}

INSTANTIATE_TEST_SUITE_P(Backends, DeviceTest, ::testing::ValuesIn(DeviceFixture::Backends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace warpline::device
