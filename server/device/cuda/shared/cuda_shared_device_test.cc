// What contexts of a shared GPU ask of the driver, and what they leave behind: nothing.
#include "server/device/cuda/shared/cuda_shared_device.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/sealed_memory.h"
#include "gtest/gtest.h"
#include "server/device/cuda/shared/stalling_calls.h"
#include "server/device/cuda/testing/timeline_driver.h"
#include "server/device/device.h"

namespace warpline::device {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kArena = 0x300000000000;
constexpr uint64_t kArenaBytes = 4096 * kMiB;
constexpr uint64_t kOtherArena = kArena + 2 * kArenaBytes;
constexpr uint64_t kStagingBytes = 1 * kMiB;
constexpr KernelId kKernel{0x77};
constexpr uint64_t kNamed = 0x500000000000;
constexpr uint64_t kWindowBytes = 64 << 10;
const char* const kStalling[] = {
#define WARPLINE_NAME(name) #name,
    WARPLINE_STALLING_FUNCTIONS(WARPLINE_NAME)
#undef WARPLINE_NAME
};

class CudaSharedDeviceTest : public testing::Test {
 protected:
  void TearDown() override {
    contexts_.clear();
    driver_.Complete();
    device_.reset();
    EXPECT_EQ(driver_.Misuse(), "");
    EXPECT_EQ(driver_.Live(), "");
  }

  void OpenDevice() {
    auto device = CudaSharedDevice::Open(driver_.api(), 0, {kStagingBytes});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }
  Context* Open(int multiprocessors = 0) {
    if (device_ == nullptr) OpenDevice();
    auto context = device_->OpenContext({multiprocessors});
    EXPECT_TRUE(context.ok()) << context.status();
    contexts_.push_back(*std::move(context));
    return contexts_.back().get();
  }
  // With a chunk at the arena's start, memory of its own behind it, and all of it sealed.
  Context* OpenSealed(uint64_t arena = kArena) {
    Context* const context = Open();
    EXPECT_EQ(context->ReserveArena(arena, kArenaBytes), CudaResult::kSuccess);
    EXPECT_EQ(context->MapChunk(arena, 2 * kMiB, 3), CudaResult::kSuccess);
    EXPECT_EQ(context->MapOwn(arena + 2 * kMiB, 2 * kMiB), CudaResult::kSuccess);
    EXPECT_EQ(context->Seal(), CudaResult::kSuccess);
    return context;
  }
  std::vector<int> StallingCalls() {
    std::vector<int> calls;
    for (const char* name : kStalling) calls.push_back(driver_.Count(name));
    return calls;
  }

  std::unique_ptr<HostWindow> OpenWindow() {
    const auto file = NewSealedMemory("window", kWindowBytes);
    EXPECT_TRUE(file.ok()) << file.status();
    auto window = device_->OpenWindow(file->get(), kWindowBytes);
    EXPECT_TRUE(window.ok()) << window.status();
    return *std::move(window);
  }

  TimelineDriver driver_;
  std::unique_ptr<SharedDevice> device_;
  std::vector<std::unique_ptr<Context>> contexts_;
};

// Makes one of everything, and does one of everything.
void UseAll(Context* context, uint64_t arena) {
  const auto expect = [](CudaResult result) { EXPECT_EQ(result, CudaResult::kSuccess); };
  StreamId blocking{}, apart{};
  expect(context->CreateStream(0, 0, &blocking));
  expect(context->CreateStream(1, 0, &apart));
  EventId event{};
  expect(context->CreateEvent(2, &event));
  ModuleId module{}, compiled{};
  JitLog log;
  log.info = "of before";
  expect(
      context->LoadModule("\x7f"
                          "ELF",
                          &module));
  expect(
      context->LoadModuleJit("\x7f"
                             "ELF",
                             {}, &log, &compiled));
  EXPECT_EQ(log.info, "");
  KernelId kernel{};
  expect(context->CheckModule(module));
  expect(context->FindKernel(module, "kernel", &kernel));
  std::vector<ParamLayout> params;
  expect(context->Params(kKernel, &params));
  void* staging = nullptr;
  expect(context->AllocStaging(100, &staging));
  LaunchConfig attributed;
  attributed.cooperative = true;
  const MemOp word = {MemOp::kWrite32, 0, arena, 0};
  const BoxPlace box = {arena, 64, 128};
  GraphNode fill;
  fill.kind = GraphNode::Kind::kMemset;
  fill.dst = {arena, 0, 0};
  fill.width = 4;
  fill.columns = 1;
  fill.rows = 1;
  GraphId graph{};
  expect(context->CreateGraph({&fill, 1}, &graph));
  uint64_t name = arena + 0x1000;
  for (const StreamId stream : {kLegacyStream, blocking, apart, kLegacyStream}) {
    expect(context->CopyToDevice(arena, staging, 64, stream));
    expect(context->CopyFromDevice(staging, arena, 64, stream));
    expect(context->CopyOnDevice(arena, arena + 64, 64, stream));
    expect(context->Memset(name, 0, 1, 64, stream));
    expect(context->Memset(arena, 0, 2, 64, stream));
    expect(context->Memset(arena, 0, 4, 64, stream));
    expect(context->MemsetRows(arena, 64, 0, 1, 64, 2, stream));
    expect(context->CopyBoxToDevice(box, staging, {64, 1, 1}, stream));
    expect(context->CopyBoxFromDevice(staging, box, {64, 1, 1}, stream));
    expect(context->CopyBoxOnDevice(box, box, {64, 1, 1}, stream));
    expect(context->MemOps({&word, 1}, stream));
    expect(context->Launch(static_cast<KernelId>(name + 0x100), {}, {}, stream));
    expect(context->Launch(kKernel, attributed, {}, stream));
    expect(context->LaunchGraph(graph, stream));
    expect(context->RecordEvent(event, stream));
    expect(context->WaitEvent(stream, event));
    expect(context->SetStreamAttribute(stream, {}));
    name += 0x1000;
  }
  expect(context->WriteVariable(module, "variable", {}, kLegacyStream));
  expect(context->SetKernelAttribute(kKernel, 8, 1024));
  int value = 0;
  expect(context->GetKernelAttribute(kKernel, 8, &value));
  expect(context->SetLimit(0, 1024));
  EXPECT_EQ(context->SetLimit(0, 1025), CudaResult::kNotSupported);
  expect(context->FlushOutput());
  context->QueryIdle();
  EXPECT_FALSE(context->BusyProcessors().Overlaps({}));
  uint64_t block = 0;
  EXPECT_EQ(context->TakeBlock(&block), CudaResult::kNotSupported);
  context->FreeBlock(0x1000);
  EXPECT_FALSE(context->capabilities().Has(Capability::kVariableBlocks));
}

// What the driver would wait for, compile, or never end.
void ExpectRefusals(Context* context, uint64_t arena) {
  const MemOp wait = {MemOp::kWait32, 0, arena, 1};
  EXPECT_EQ(context->MemOps({&wait, 1}, kLegacyStream), CudaResult::kNotSupported);
  GraphNode waits;
  waits.kind = GraphNode::Kind::kMemOps;
  waits.operations = {wait};
  GraphId graph{};
  EXPECT_EQ(context->CreateGraph({&waits, 1}, &graph), CudaResult::kInvalidValue);
  FrameId frame{};
  EXPECT_EQ(context->CreateFrame(&frame), CudaResult::kNotSupported);
  ArrayShape shape;
  shape.width = 16;
  ArrayId array{};
  EXPECT_EQ(context->CreateArray(&shape, &array), CudaResult::kNotSupported);
  LinkId link{};
  EXPECT_EQ(context->CreateLink({}, &link), CudaResult::kNotSupported);
  uint64_t object = 0;
  EXPECT_EQ(context->CreateTexture({}, &object), CudaResult::kNotSupported);
}

// Makes one of everything and destroys it again.
void MakeAndDestroy(Context* context) {
  const auto expect = [](CudaResult result) { EXPECT_EQ(result, CudaResult::kSuccess); };
  StreamId stream{};
  expect(context->CreateStream(0, 0, &stream));
  expect(context->DestroyStream(stream));
  EXPECT_EQ(context->DestroyStream(stream), CudaResult::kInvalidHandle);
  EventId event{};
  expect(context->CreateEvent(0, &event));
  expect(context->DestroyEvent(event));
  EXPECT_EQ(context->DestroyEvent(event), CudaResult::kInvalidHandle);
  ModuleId module{};
  expect(
      context->LoadModule("\x7f"
                          "ELF",
                          &module));
  expect(context->UnloadModule(module));
  EXPECT_EQ(context->UnloadModule(module), CudaResult::kInvalidHandle);
  GraphId graph{};
  expect(context->CreateGraph({}, &graph));
  expect(context->DestroyGraph(graph));
  EXPECT_EQ(context->DestroyGraph(graph), CudaResult::kInvalidHandle);
  void* staging = nullptr;
  expect(context->AllocStaging(1, &staging));
  context->FreeStaging(staging);
  context->FreeStaging(staging);
}

TEST_F(CudaSharedDeviceTest, NothingIsCalledThatStallsOthersOnceSealed) {
  Context* const context = OpenSealed();
  const std::vector<int> before = StallingCalls();
  UseAll(context, kArena);
  driver_.Complete();
  MakeAndDestroy(context);
  ExpectRefusals(context, kArena);
  contexts_.clear();
  const std::vector<int> after = StallingCalls();
  for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i], before[i]) << kStalling[i];
}

TEST_F(CudaSharedDeviceTest, AWindowIsCopiedThroughWhereItIs) {
  OpenDevice();
  std::unique_ptr<HostWindow> window = OpenWindow();
  EXPECT_EQ(driver_.Count("cuMemHostRegister"), 1);
  Context* const context = OpenSealed();
  const std::vector<int> before = StallingCalls();
  const int copies = driver_.Count("cuMemcpyHtoDAsync");
  ASSERT_EQ(context->ShowHost(kNamed, kWindowBytes, window->host()), CudaResult::kSuccess);
  EXPECT_EQ(context->CopyOnDevice(kArena, kNamed, kWindowBytes, kLegacyStream),
            CudaResult::kSuccess);
  EXPECT_EQ(context->CopyOnDevice(kNamed + 64, kArena, 64, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(driver_.Count("cuMemcpyHtoDAsync"), copies + 1);
  EXPECT_EQ(driver_.Count("cuMemcpyDtoHAsync"), 1);
  EXPECT_EQ(context->CopyOnDevice(kArena, kNamed + 64, kWindowBytes, kLegacyStream),
            CudaResult::kInvalidValue);
  EXPECT_EQ(
      context->CopyOnDevice(kArena, reinterpret_cast<uint64_t>(window->host()), 64, kLegacyStream),
      CudaResult::kInvalidValue)
      << "it has another name";
  const MemOp word = {MemOp::kWrite32, 0, kNamed, 0};
  EXPECT_EQ(context->MemOps({&word, 1}, kLegacyStream), CudaResult::kInvalidValue);
  Context* const other = OpenSealed(kOtherArena);
  EXPECT_EQ(other->CopyOnDevice(kOtherArena, kNamed, 64, kLegacyStream), CudaResult::kInvalidValue);
  contexts_.clear();
  EXPECT_EQ(StallingCalls(), before);
}

TEST_F(CudaSharedDeviceTest, AWindowDoesNotCoverTheArena) {
  Context* const context = OpenSealed();
  int host = 0;
  EXPECT_EQ(context->ShowHost(kArena + 4096, 4096, &host), CudaResult::kInvalidValue);
  EXPECT_EQ(context->ShowHost(~uint64_t{0} - 4095, 8192, &host), CudaResult::kInvalidValue);
  EXPECT_EQ(context->ShowHost(kNamed, 0, &host), CudaResult::kInvalidValue);
}

// The timeline's driver takes it for misuse to lock memory while something runs.
TEST_F(CudaSharedDeviceTest, AWindowChangesItsMemoryWhenNothingRuns) {
  OpenDevice();
  std::unique_ptr<HostWindow> window = OpenWindow();
  Context* const context = OpenSealed();
  const void* const before = window->host();
  const auto next = NewSealedMemory("window", kWindowBytes);
  ASSERT_TRUE(next.ok()) << next.status();
  ASSERT_EQ(context->Launch(kKernel, {{1, 1, 1}, {32, 1, 1}, 0}, {}, kLegacyStream),
            CudaResult::kSuccess);
  EXPECT_EQ(window->Replace(next->get()).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(window->host(), before);
  EXPECT_EQ(driver_.Count("cuMemHostUnregister"), 0);
  driver_.Complete();
  EXPECT_TRUE(window->Replace(next->get()).ok());
  EXPECT_EQ(driver_.Count("cuMemHostRegister"), 2);
  EXPECT_EQ(driver_.Count("cuMemHostUnregister"), 1);
  ASSERT_EQ(pwrite(next->get(), "x", 1, 4095), 1);
  EXPECT_EQ(static_cast<const char*>(window->host())[4095], 'x');
  EXPECT_TRUE(window->Replace(-1).ok());
  EXPECT_EQ(window->host(), nullptr);
  EXPECT_EQ(driver_.Count("cuMemHostUnregister"), 2);
}

TEST_F(CudaSharedDeviceTest, AWindowThatCannotBeLockedAgainIsGivenUp) {
  OpenDevice();
  std::unique_ptr<HostWindow> window = OpenWindow();
  const auto next = NewSealedMemory("window", kWindowBytes);
  ASSERT_TRUE(next.ok()) << next.status();
  driver_.Fail("cuMemHostRegister", 1);
  const absl::Status failed = window->Replace(next->get());
  EXPECT_FALSE(failed.ok() || absl::IsUnavailable(failed)) << failed;
  EXPECT_EQ(window->host(), nullptr);
  EXPECT_FALSE(device_->OpenWindow(next->get(), kWindowBytes).ok());
}

// Neither does the opening of a session, which others see while they run.
TEST_F(CudaSharedDeviceTest, NothingIsCalledThatStallsOthersOnceTheDeviceIsOpen) {
  Open(8);
  const std::vector<int> before = StallingCalls();
  OpenSealed();
  Open(16);
  const std::vector<int> after = StallingCalls();
  for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i], before[i]) << kStalling[i];
}

TEST_F(CudaSharedDeviceTest, AContextLeavesNothingBehind) {
  OpenDevice();
  const std::string before = driver_.Live();
  UseAll(OpenSealed(), kArena);
  EXPECT_NE(driver_.Live(), before);
  contexts_.clear();
  EXPECT_EQ(driver_.Live(), before + ", library 2") << "whose end waits for a quiet moment";
  driver_.Complete();
  ModuleId module{};
  EXPECT_EQ(Open()->LoadModule("", &module), CudaResult::kSuccess);
  contexts_.clear();
  EXPECT_EQ(driver_.Count("cuLibraryUnload"), 2);
  // All of it can be had again.
  Context* const next = OpenSealed();
  void* staging = nullptr;
  EXPECT_EQ(next->AllocStaging(kStagingBytes, &staging), CudaResult::kSuccess);
}

TEST_F(CudaSharedDeviceTest, ASealedArenaHasNoHoles) {
  Context* const context = Open();
  ASSERT_EQ(context->ReserveArena(kArena, kArenaBytes), CudaResult::kSuccess);
  EXPECT_EQ(context->own_bytes(), 0u);
  ASSERT_EQ(context->MapChunk(kArena + 2 * kMiB, 2 * kMiB, 3), CudaResult::kSuccess);
  ASSERT_EQ(context->MapChunk(kArena + 1024 * kMiB, 1024 * kMiB, 3), CudaResult::kSuccess);
  ASSERT_EQ(context->MapOwn(kArena + kArenaBytes - 4 * kMiB, 4 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(context->own_bytes(), 4 * kMiB);
  constexpr uint64_t kZone = Memory::kZoneBytes;
  EXPECT_FALSE(driver_.IsAccessible(kArena, kArenaBytes));
  const int accesses = driver_.Count("cuMemSetAccess");
  const int made = driver_.Count("cuMemCreate");
  ASSERT_EQ(context->Seal(), CudaResult::kSuccess);
  EXPECT_TRUE(driver_.IsAccessible(kArena - kZone, kArenaBytes + 2 * kZone));
  EXPECT_EQ(context->own_bytes(), 4 * kMiB + 66 * kMiB);
  EXPECT_EQ(driver_.Count("cuMemCreate") - made, 2);
  EXPECT_EQ(driver_.Count("cuMemSetAccess") - accesses, 5 + 2) << "holes, and memory to zero";
  // 32 for the first 64 MiB, with the chunk; 30 more at the end of the arena, and what is its own.
  EXPECT_EQ(driver_.Mappings(kArena - kZone, kArenaBytes + 2 * kZone),
            1 + 32 + 15 + 1 + 31 + 30 + 1 + 1);
}

TEST_F(CudaSharedDeviceTest, SinksTakeWhatTheSessionPaysFor) {
  OpenDevice();
  for (const uint64_t granule : {2 * kMiB, 16 * kMiB}) {
    auto context = device_->OpenContext({.sink_granule_bytes = granule});
    ASSERT_TRUE(context.ok()) << context.status();
    ASSERT_EQ((*context)->ReserveArena(kArena, kArenaBytes), CudaResult::kSuccess);
    ASSERT_EQ((*context)->MapChunk(kArena, 2 * kMiB, 3), CudaResult::kSuccess);
    ASSERT_EQ((*context)->Seal(), CudaResult::kSuccess);
    EXPECT_EQ((*context)->own_bytes(), granule == 2 * kMiB ? granule : granule + 2 * kMiB);
    EXPECT_TRUE(driver_.IsAccessible(kArena - Memory::kZoneBytes, kArenaBytes));
  }
  for (const uint64_t bad : {uint64_t{0}, kMiB, 3 * kMiB, 6 * kMiB, 128 * kMiB}) {
    EXPECT_EQ(device_->OpenContext({.sink_granule_bytes = bad}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(CudaSharedDeviceTest, ASealedArenaStaysAsItIs) {
  Context* const context = OpenSealed();
  EXPECT_EQ(context->MapChunk(kArena + 4 * kMiB, 2 * kMiB, 3), CudaResult::kNotSupported);
  EXPECT_EQ(context->UnmapChunk(kArena, 2 * kMiB), CudaResult::kNotSupported);
  EXPECT_EQ(context->MapSink(kArena + 4 * kMiB, 2 * kMiB), CudaResult::kNotSupported);
  EXPECT_EQ(context->MapOwn(kArena + 4 * kMiB, 2 * kMiB), CudaResult::kNotSupported);
  EXPECT_EQ(context->SetChunkAccess(kArena, 2 * kMiB, MemoryAccess::kRead),
            CudaResult::kNotSupported);
  EXPECT_EQ(context->Seal(), CudaResult::kNotSupported);
  EXPECT_EQ(context->MapHost(0x500000000000, 4096, 3), CudaResult::kNotSupported);
  EXPECT_EQ(context->UnmapHost(0x500000000000, 4096), CudaResult::kInvalidValue);
}

TEST_F(CudaSharedDeviceTest, ChunksLeaveAndComeBackWhileNothingRunsAndStallNobody) {
  Context* const context = OpenSealed();
  OpenSealed(kOtherArena);
  constexpr uint64_t kZone = Memory::kZoneBytes;
  EXPECT_EQ(context->Memset(kArena, 0, 1, 1, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(context->Unseal(), CudaResult::kNotReady);
  EXPECT_EQ(context->UnmapChunk(kArena, 2 * kMiB), CudaResult::kNotSupported);
  driver_.Complete();
  const std::vector<int> before = StallingCalls();
  const int made = driver_.Count("cuMemCreate");
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(context->Unseal(), CudaResult::kSuccess);
    EXPECT_EQ(context->Unseal(), CudaResult::kNotSupported);
    EXPECT_EQ(context->UnmapChunk(kArena, 2 * kMiB), CudaResult::kSuccess);
    EXPECT_FALSE(driver_.IsAccessible(kArena - kZone, kArenaBytes + 2 * kZone));
    EXPECT_TRUE(driver_.IsAccessible(kOtherArena - kZone, kArenaBytes + 2 * kZone));
    EXPECT_EQ(context->MapChunk(kArena, 2 * kMiB, 3), CudaResult::kSuccess);
    ASSERT_EQ(context->Seal(), CudaResult::kSuccess);
    EXPECT_TRUE(driver_.IsAccessible(kArena - kZone, kArenaBytes + 2 * kZone));
  }
  EXPECT_EQ(driver_.Count("cuMemCreate"), made);
  EXPECT_EQ(StallingCalls(), before);
}

TEST_F(CudaSharedDeviceTest, ChunksAndSinksComeAndGoBeforeTheSeal) {
  Context* const context = Open();
  EXPECT_EQ(context->Seal(), CudaResult::kInvalidValue) << "without an arena";
  ASSERT_EQ(context->ReserveArena(kArena, kArenaBytes), CudaResult::kSuccess);
  EXPECT_EQ(context->ReserveArena(kOtherArena, kArenaBytes), CudaResult::kInvalidValue);
  EXPECT_EQ(context->MapSink(kArena, 8 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(context->MapSink(kArena, 8 * kMiB), CudaResult::kSuccess) << "is there";
  EXPECT_EQ(context->own_bytes(), 2 * kMiB);
  EXPECT_EQ(context->MapChunk(kArena + 2 * kMiB, 4 * kMiB, 3), CudaResult::kSuccess);
  EXPECT_EQ(context->MapChunk(kArena + 4 * kMiB, 4 * kMiB, 3), CudaResult::kInvalidValue);
  EXPECT_EQ(context->MapSink(kArena, 4 * kMiB), CudaResult::kInvalidValue);
  EXPECT_EQ(context->MapSink(kArena + 4 * kMiB, 2 * kMiB), CudaResult::kInvalidValue);
  EXPECT_EQ(context->UnmapChunk(kArena, 2 * kMiB), CudaResult::kInvalidValue) << "a sink";
  EXPECT_EQ(context->SetChunkAccess(kArena + 2 * kMiB, 4 * kMiB, MemoryAccess::kRead),
            CudaResult::kSuccess);
  EXPECT_EQ(context->UnmapChunk(kArena + 2 * kMiB, 4 * kMiB), CudaResult::kSuccess);
  for (const uint64_t at : {kArena - 2 * kMiB, kArena + kArenaBytes, kArena + kMiB}) {
    EXPECT_EQ(context->MapChunk(at, 2 * kMiB, 3), CudaResult::kInvalidValue);
    EXPECT_EQ(context->MapOwn(at, 2 * kMiB), CudaResult::kInvalidValue);
    EXPECT_EQ(context->MapSink(at, 2 * kMiB), CudaResult::kInvalidValue);
  }
  EXPECT_EQ(context->Seal(), CudaResult::kSuccess);
  EXPECT_TRUE(driver_.IsAccessible(kArena, kArenaBytes));
}

TEST_F(CudaSharedDeviceTest, AnArenaWithoutItsZonesIsNotReserved) {
  OpenDevice();
  Context* const context = Open();
  const std::string before = driver_.Live();
  driver_.Occupy(kArena + kArenaBytes + Memory::kZoneBytes - 4096, 4096);
  EXPECT_EQ(context->ReserveArena(kArena, kArenaBytes), CudaResult::kInvalidValue);
  EXPECT_EQ(driver_.Live(), before);
  driver_.Occupy(kOtherArena + kMiB, 4096);
  EXPECT_EQ(context->ReserveArena(kOtherArena, kArenaBytes), CudaResult::kInvalidValue);
  EXPECT_EQ(driver_.Live(), before);
  EXPECT_EQ(context->ReserveArena(kOtherArena + 2 * kArenaBytes, kArenaBytes),
            CudaResult::kSuccess);
}

TEST_F(CudaSharedDeviceTest, AFailedSealLeavesTheArenaAsItWas) {
  Context* const context = Open();
  ASSERT_EQ(context->ReserveArena(kArena, kArenaBytes), CudaResult::kSuccess);
  ASSERT_EQ(context->MapChunk(kArena, 2 * kMiB, 3), CudaResult::kSuccess);
  for (const char* call : {"cuMemMap", "cuMemSetAccess", "cuMemcpyHtoDAsync"}) {
    driver_.Fail(call, 1);
    EXPECT_NE(context->MapOwn(kArena + 2 * kMiB, 2 * kMiB), CudaResult::kSuccess) << call;
    driver_.Fail(call, 0);
    EXPECT_EQ(context->own_bytes(), 0u);
  }
  for (const auto& [call, nth] : {std::pair("cuMemCreate", 1), std::pair("cuMemcpyHtoDAsync", 1),
                                  std::pair("cuMemSetAccess", 2), std::pair("cuMemMap", 50)}) {
    driver_.Fail(call, nth);
    EXPECT_EQ(context->Seal(), CudaResult::kOutOfMemory) << call;
    driver_.Fail(call, 0);
    EXPECT_EQ(driver_.Mappings(kArena - Memory::kZoneBytes, 2 * kArenaBytes), 1) << call;
  }
  EXPECT_EQ(context->Seal(), CudaResult::kSuccess);
}

TEST_F(CudaSharedDeviceTest, OneSessionDoesNotNameWhatIsAnothers) {
  Context* const one = OpenSealed();
  Context* const other = OpenSealed(kOtherArena);
  EXPECT_EQ(one->Memset(kArena, 0, 4, 1, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(other->Memset(kArena, 0, 4, 1, kLegacyStream), CudaResult::kInvalidValue);
  EXPECT_EQ(one->Memset(kOtherArena, 0, 4, 1, kLegacyStream), CudaResult::kInvalidValue);
  EXPECT_EQ(one->Memset(kArena - 4, 0, 4, 1, kLegacyStream), CudaResult::kInvalidValue)
      << "zones are for kernels";
  EventId event{};
  ASSERT_EQ(one->CreateEvent(0, &event), CudaResult::kSuccess);
  EXPECT_EQ(other->DestroyEvent(event), CudaResult::kInvalidHandle);
  void* staging = nullptr;
  ASSERT_EQ(one->AllocStaging(kStagingBytes / 2, &staging), CudaResult::kSuccess);
  std::memset(staging, 1, 100);
  other->FreeStaging(staging);
  EXPECT_EQ(static_cast<char*>(staging)[99], 1);
  void* more = nullptr;
  EXPECT_EQ(other->AllocStaging(kStagingBytes, &more), CudaResult::kOutOfMemory);
  one->FreeStaging(staging);
  ASSERT_EQ(other->AllocStaging(kStagingBytes, &more), CudaResult::kSuccess);
  EXPECT_EQ(static_cast<char*>(more)[99], 0);
}

TEST_F(CudaSharedDeviceTest, SessionsDoNotWaitForEachOther) {
  Context* const one = OpenSealed();
  Context* const other = OpenSealed(kOtherArena);
  StreamId blocking{};
  ASSERT_EQ(other->CreateStream(0, 0, &blocking), CudaResult::kSuccess);
  EXPECT_EQ(one->Memset(kArena, 0, 1, 1, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(other->Memset(kOtherArena, 0, 1, 1, blocking), CudaResult::kSuccess);
  EXPECT_EQ(other->Memset(kOtherArena + 1, 0, 1, 1, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(one->Memset(kArena + 1, 0, 1, 1, kLegacyStream), CudaResult::kSuccess);
  EXPECT_TRUE(driver_.ComesAfter(kOtherArena + 1, kOtherArena));
  EXPECT_TRUE(driver_.ComesAfter(kArena + 1, kArena));
  EXPECT_FALSE(driver_.ComesAfter(kOtherArena, kArena));
  EXPECT_FALSE(driver_.ComesAfter(kOtherArena + 1, kArena));
  EXPECT_FALSE(driver_.ComesAfter(kArena + 1, kOtherArena));
  EXPECT_EQ(one->QueryIdle(), CudaResult::kNotReady);
  driver_.Complete();
  EXPECT_EQ(one->QueryIdle(), CudaResult::kSuccess);
}

// The driver would wait for everybody's kernels when it makes more.
TEST_F(CudaSharedDeviceTest, KernelsHaveNoMoreLocalMemoryThanThereIs) {
  Context* const context = Open();
  ModuleId module{};
  ASSERT_EQ(context->LoadModule("", &module), CudaResult::kSuccess);
  KernelId kernel{};
  driver_.HaveLocalBytes(static_cast<int>(SharedDeviceOptions().local_bytes));
  EXPECT_EQ(context->FindKernel(module, "kernel", &kernel), CudaResult::kSuccess);
  driver_.HaveLocalBytes(static_cast<int>(SharedDeviceOptions().local_bytes) + 16);
  EXPECT_EQ(context->FindKernel(module, "kernel", &kernel), CudaResult::kLaunchOutOfResources);
  EXPECT_EQ(driver_.Count("cuCtxSetLimit"), 1) << "when the device is opened";
}

// The driver would wait for the kernel, and nobody could do what the kernel waits for.
TEST_F(CudaSharedDeviceTest, CodeIsLoadedWhenNoKernelRuns) {
  Context* const one = Open();
  Context* const other = Open();
  EXPECT_EQ(one->Launch(kKernel, {{1, 1, 1}, {1, 1, 1}, 0}, {}, kLegacyStream),
            CudaResult::kSuccess);
  std::atomic<bool> loaded{false};
  std::thread loads([&] {
    ModuleId module{};
    EXPECT_EQ(other->LoadModule("", &module), CudaResult::kSuccess);
    loaded = true;
  });
  // Others' calls go on meanwhile, launches between pauses.
  EXPECT_EQ(one->Launch(KernelId{0x78}, {{1, 1, 1}, {1, 1, 1}, 0}, {}, kLegacyStream),
            CudaResult::kSuccess);
  EXPECT_FALSE(loaded);
  EXPECT_EQ(driver_.Count("cuLibraryLoadData"), 0);
  driver_.Complete();
  loads.join();
  EXPECT_TRUE(loaded);
}

TEST_F(CudaSharedDeviceTest, StreamsRunOnTheSessionsMultiprocessors) {
  OpenDevice();
  EXPECT_EQ(driver_.Count("cuGreenCtxCreate"), 77) << "the rows of twelve slots, but for the whole";
  Context* const large = Open();
  EXPECT_EQ(driver_.Count("cuGreenCtxStreamCreate"), 0);
  Context* const limited = Open(16);
  EXPECT_EQ(driver_.Count("cuGreenCtxStreamCreate"), 1);
  StreamId stream{};
  EXPECT_EQ(limited->CreateStream(0, 0, &stream), CudaResult::kSuccess);
  EXPECT_EQ(driver_.Count("cuGreenCtxStreamCreate"), 2);
  // Alone, then beside another one.
  EXPECT_EQ(large->Launch(kKernel, {{1056, 1, 1}, {32, 1, 1}, 0}, {}, kLegacyStream),
            CudaResult::kSuccess);
  EXPECT_EQ(driver_.Count("cuGreenCtxStreamCreate"), 2);
  EXPECT_EQ(limited->Launch(kKernel, {{1, 1, 1}, {32, 1, 1}, 0}, {}, stream), CudaResult::kSuccess);
  const int before = driver_.Count("cuGreenCtxStreamCreate");
  EXPECT_EQ(large->Launch(KernelId{0x78}, {{1056, 1, 1}, {32, 1, 1}, 0}, {}, kLegacyStream),
            CudaResult::kSuccess);
  EXPECT_EQ(driver_.Count("cuGreenCtxStreamCreate"), before + 1);
}

TEST_F(CudaSharedDeviceTest, GraphsAreMadeAgainWhereTheirSessionGetsItsPlace) {
  OpenDevice();
  Context* const one = Open();
  Context* const other = Open();
  GraphNode node;
  node.kind = GraphNode::Kind::kLaunch;
  node.kernel = kKernel;
  node.config = {{1056, 1, 1}, {32, 1, 1}, 0};
  GraphId graph{};
  EXPECT_EQ(one->CreateGraph({&node, 1}, &graph), CudaResult::kSuccess);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(one->LaunchGraph(graph, kLegacyStream), CudaResult::kSuccess);
  }
  EXPECT_EQ(driver_.Count("cuGraphInstantiate"), 1);
  EXPECT_EQ(other->Launch(kKernel, {{1, 1, 1}, {32, 1, 1}, 0}, {}, kLegacyStream),
            CudaResult::kSuccess);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(one->LaunchGraph(graph, kLegacyStream), CudaResult::kSuccess);
  }
  EXPECT_EQ(driver_.Count("cuGraphInstantiate"), 2);
  EXPECT_EQ(driver_.Count("cuGraphExecDestroy"), 1);
  EXPECT_EQ(other->LaunchGraph(graph, kLegacyStream), CudaResult::kInvalidHandle);
  EXPECT_EQ(one->DestroyGraph(graph), CudaResult::kSuccess);
  EXPECT_EQ(one->DestroyGraph(graph), CudaResult::kInvalidHandle);
  EXPECT_EQ(one->LaunchGraph(graph, kLegacyStream), CudaResult::kInvalidHandle);
}

TEST_F(CudaSharedDeviceTest, WithoutGreenContextsAllShareEverything) {
  driver_.DropGreenContexts();
  Context* const context = Open(16);
  StreamId stream{};
  EXPECT_EQ(context->CreateStream(0, 0, &stream), CudaResult::kSuccess);
}

TEST_F(CudaSharedDeviceTest, WhatCannotBeOpenedLeavesNothingBehind) {
  driver_.Fail("cuMemHostAlloc", 1);
  EXPECT_FALSE(CudaSharedDevice::Open(driver_.api(), 0, {}).ok());
  driver_.Fail("cuMemHostAlloc", 0);
  EXPECT_EQ(driver_.Live(), "");
  driver_.Fail("cuGreenCtxCreate", 5);
  OpenDevice();
  driver_.Fail("cuGreenCtxCreate", 0);
  const std::string before = driver_.Live();
  for (const char* call : {"cuStreamCreateWithPriority", "cuEventCreate",
                           "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent"}) {
    driver_.Fail(call, 1);
    EXPECT_FALSE(device_->OpenContext({}).ok()) << call;
    driver_.Fail(call, 0);
    EXPECT_EQ(driver_.Live(), before) << call;
  }
}

}  // namespace
}  // namespace warpline::device
