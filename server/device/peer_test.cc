// Tests several devices whose contexts were opened together: what a session with all of them relies
// on. Skipped for a backend that has only one.
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/device.h"
#include "server/hostlink/backends/backend_names.h"

namespace warpline::device {
namespace {

constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kArenaBytes = 4096 * kMiB;
constexpr uint64_t kChunk = 2 * kMiB;
// ThreadSanitizer leaves programs little of the address space; the last base is one that it allows.
constexpr uint64_t kArenaBases[] = {0x300000000000, 0x340000000000, 0x7e9000000000};

constexpr char kPtx[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .global .align 4 .u32 number = 5;

// Waits until *flag is not 0, then stores that at `where`.
.visible .entry relay(.param .u64 flag, .param .u64 where)
{
  .reg .pred %p<2>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [flag];
  ld.param.u64 %rd2, [where];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
AGAIN:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra AGAIN;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

class PeerTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Backend>> backend = OpenBackend(GetParam());
    if (!backend.ok()) GTEST_SKIP() << backend.status();
    backend_ = *std::move(backend);
    if (backend_->DeviceCount() < 2) GTEST_SKIP() << "one device";
    const int ordinals[] = {0, 1};
    auto contexts = backend_->OpenContexts(ordinals);
    ASSERT_TRUE(contexts.ok()) << contexts.status();
    contexts_ = *std::move(contexts);
    ASSERT_EQ(contexts_.size(), 2u);
    for (const uint64_t base : kArenaBases) {
      if (contexts_[0]->ReserveArena(base, kArenaBytes) == CudaResult::kSuccess) {
        base_ = base;
        break;
      }
    }
    ASSERT_NE(base_, 0u);
    for (int i = 0; i < 2; ++i) {
      auto chunks = backend_->OpenChunkSource(i);
      ASSERT_TRUE(chunks.ok()) << chunks.status();
      auto fd = (*chunks)->CreateChunk(kChunk);
      ASSERT_TRUE(fd.ok()) << fd.status();
      ASSERT_TRUE((*chunks)->ScrubChunk(fd->get(), kChunk).ok());
      const uint64_t va = base_ + static_cast<uint64_t>(i) * kArenaBytes / 2;
      ASSERT_EQ(contexts_[i]->MapChunk(va, kChunk, fd->get()), CudaResult::kSuccess);
      memory_[i] = va;
      fds_[i] = *std::move(fd);
    }
    ASSERT_EQ(contexts_[0]->AllocStaging(4096, &staging_), CudaResult::kSuccess);
  }

  void TearDown() override {
    if (staging_ != nullptr) contexts_[0]->FreeStaging(staging_);
    // Unmapped so that the next test finds the arena's addresses free.
    for (int i = 0; i < 2; ++i) {
      if (memory_[i] != 0) contexts_[i]->UnmapChunk(memory_[i], kChunk);
    }
  }

  CudaResult Sync(int device, StreamId stream) {
    EventId event;
    CudaResult result = contexts_[device]->CreateEvent(2, &event);
    if (result != CudaResult::kSuccess) return result;
    result = contexts_[device]->RecordEvent(event, stream);
    while (result == CudaResult::kSuccess) {
      result = contexts_[device]->QueryEvent(event);
      if (result != CudaResult::kNotReady) break;
      result = CudaResult::kSuccess;
      std::this_thread::yield();
    }
    contexts_[device]->DestroyEvent(event);
    return result;
  }

  void Write(int device, uint64_t address, const std::vector<uint32_t>& words, StreamId stream) {
    ASSERT_EQ(contexts_[device]->CopyToDevice(address, words.data(), words.size() * 4, stream),
              CudaResult::kSuccess);
  }

  // Reads through a staging buffer that another context made.
  std::vector<uint32_t> Read(int device, uint64_t address, size_t count) {
    EXPECT_EQ(contexts_[device]->CopyFromDevice(staging_, address, count * 4, kLegacyStream),
              CudaResult::kSuccess);
    EXPECT_EQ(Sync(device, kLegacyStream), CudaResult::kSuccess);
    const auto* words = static_cast<const uint32_t*>(staging_);
    return {words, words + count};
  }

  CudaResult Relay(int device, uint64_t flag, uint64_t where, StreamId stream) {
    ModuleId module{};
    KernelId kernel{};
    CudaResult result = contexts_[device]->LoadModule(kPtx, &module);
    if (result == CudaResult::kSuccess) {
      result = contexts_[device]->FindKernel(module, "relay", &kernel);
    }
    if (result != CudaResult::kSuccess) return result;
    const uint64_t params[] = {flag, where};
    return contexts_[device]->Launch(kernel, {{1, 1, 1}, {1, 1, 1}, 0},
                                     {reinterpret_cast<const std::byte*>(params), sizeof(params)},
                                     stream);
  }

  StreamId NewStream(int device, uint32_t flags) {
    StreamId stream{};
    EXPECT_EQ(contexts_[device]->CreateStream(flags, 0, &stream), CudaResult::kSuccess);
    return stream;
  }

  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<Context>> contexts_;
  uint64_t base_ = 0;
  uint64_t memory_[2] = {};
  UniqueFd fds_[2];
  void* staging_ = nullptr;
};

TEST_P(PeerTest, DevicesAreTold) {
  const auto first = backend_->Info(0);
  const auto second = backend_->Info(1);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->uuid, second->uuid);
  EXPECT_NE(first->pci_bus_id, second->pci_bus_id);
  EXPECT_EQ(contexts_[0]->peers() & 1u, 1u);
  EXPECT_EQ(contexts_[1]->peers() & 2u, 2u);
  EXPECT_LT(contexts_[0]->peers() | contexts_[1]->peers(), 4u);
  const int absent[] = {0, backend_->DeviceCount()};
  EXPECT_FALSE(backend_->OpenContexts(absent).ok());
}

TEST_P(PeerTest, CopiesCrossOnEitherSidesStreams) {
  Write(0, memory_[0], {1, 2, 3, 4}, kLegacyStream);
  ASSERT_EQ(Sync(0, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(contexts_[0]->CopyOnDevice(memory_[1], memory_[0], 8, kLegacyStream),
            CudaResult::kSuccess);
  ASSERT_EQ(Sync(0, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(contexts_[1]->CopyOnDevice(memory_[1] + 8, memory_[0] + 8, 8, kLegacyStream),
            CudaResult::kSuccess);
  EXPECT_EQ(Read(1, memory_[1], 4), (std::vector<uint32_t>{1, 2, 3, 4}));
}

TEST_P(PeerTest, BoxesAndArraysCross) {
  Write(0, memory_[0], {1, 2, 0, 0, 3, 4}, kLegacyStream);
  ASSERT_EQ(contexts_[0]->CopyBoxOnDevice({memory_[1], 8, 0}, {memory_[0], 16, 0}, {8, 2, 1},
                                          kLegacyStream),
            CudaResult::kSuccess);
  ASSERT_EQ(Sync(0, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(1, memory_[1], 4), (std::vector<uint32_t>{1, 2, 3, 4}));
  ArrayShape shape;
  shape.width = 4;
  shape.height = 0;
  shape.format = 3;  // CU_AD_FORMAT_UNSIGNED_INT32
  shape.channels = 1;
  ArrayEnd array;
  ASSERT_EQ(contexts_[1]->CreateArray(&shape, &array.array), CudaResult::kSuccess);
  array.kind = ArrayEnd::Kind::kArray;
  array.device = 1;
  ArrayEnd place;
  place.kind = ArrayEnd::Kind::kDevice;
  place.place = {memory_[0] + 16, 8, 8};
  ASSERT_EQ(contexts_[0]->CopyArray(array, place, {8, 1, 1}, kLegacyStream), CudaResult::kSuccess);
  place.place = {memory_[0] + 64, 8, 8};
  ASSERT_EQ(contexts_[0]->CopyArray(place, array, {8, 1, 1}, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(0, memory_[0] + 64, 2), (std::vector<uint32_t>{3, 4}));
  EXPECT_EQ(contexts_[1]->DestroyArray(array.array), CudaResult::kSuccess);
}

TEST_P(PeerTest, AStreamWaitsForAnEventOfAnotherDevice) {
  const StreamId helper = NewStream(0, 1);
  const StreamId waiter = NewStream(1, 1);
  const StreamId stalled = NewStream(0, 1);
  ASSERT_EQ(Relay(0, memory_[0], memory_[0] + 4, stalled), CudaResult::kSuccess);
  EventId event{};
  ASSERT_EQ(contexts_[0]->CreateEvent(2, &event), CudaResult::kSuccess);
  ASSERT_EQ(contexts_[0]->RecordEvent(event, stalled), CudaResult::kSuccess);
  ASSERT_EQ(contexts_[1]->WaitEvent(waiter, event), CudaResult::kSuccess);
  ASSERT_EQ(contexts_[1]->CopyOnDevice(memory_[1], memory_[0] + 4, 4, waiter),
            CudaResult::kSuccess);
  EventId after{};
  ASSERT_EQ(contexts_[1]->CreateEvent(2, &after), CudaResult::kSuccess);
  ASSERT_EQ(contexts_[1]->RecordEvent(after, waiter), CudaResult::kSuccess);
  EXPECT_EQ(contexts_[1]->QueryEvent(after), CudaResult::kNotReady);
  Write(0, memory_[0], {42}, helper);
  EXPECT_EQ(Sync(1, waiter), CudaResult::kSuccess);
  EXPECT_EQ(Read(1, memory_[1], 1), (std::vector<uint32_t>{42}));
  contexts_[0]->DestroyEvent(event);
  contexts_[1]->DestroyEvent(after);
}

TEST_P(PeerTest, LegacyStreamsAndTheirBlockingStreamsAreApart) {
  const StreamId helper = NewStream(0, 1);
  const StreamId blocking = NewStream(0, 0);
  ASSERT_EQ(Relay(0, memory_[0], memory_[0] + 4, blocking), CudaResult::kSuccess);
  // Neither waits for the kernel, but device 0's legacy stream would.
  ASSERT_EQ(contexts_[1]->Memset(memory_[1], 5, 4, 1, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(1, memory_[1], 1), (std::vector<uint32_t>{5}));
  const StreamId other = NewStream(1, 0);
  ASSERT_EQ(contexts_[1]->Memset(memory_[1], 6, 4, 1, other), CudaResult::kSuccess);
  EXPECT_EQ(Sync(1, other), CudaResult::kSuccess);
  Write(0, memory_[0], {1}, helper);
  EXPECT_EQ(Sync(0, kLegacyStream), CudaResult::kSuccess);
}

TEST_P(PeerTest, KernelsReachWhatTheirDeviceReaches) {
  if ((contexts_[1]->peers() & 1u) == 0) GTEST_SKIP() << "no peer access";
  Write(0, memory_[0], {77}, kLegacyStream);
  ASSERT_EQ(Sync(0, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(Relay(1, memory_[0], memory_[0] + 4, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(Sync(1, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(0, memory_[0] + 4, 1), (std::vector<uint32_t>{77}));
}

TEST_P(PeerTest, CopiesReachVariablesOfAnotherDevice) {
  ModuleId module{};
  uint64_t number = 0;
  uint64_t bytes = 0;
  ASSERT_EQ(contexts_[1]->LoadModule(kPtx, &module), CudaResult::kSuccess);
  ASSERT_EQ(contexts_[1]->FindGlobal(module, "number", &number, &bytes), CudaResult::kSuccess);
  Write(0, memory_[0], {0, 6}, kLegacyStream);
  ASSERT_EQ(contexts_[0]->CopyOnDevice(memory_[0], number, 4, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(0, memory_[0], 1), (std::vector<uint32_t>{5}));
  ASSERT_EQ(contexts_[0]->CopyBoxOnDevice({number, 4, 0}, {memory_[0] + 4, 4, 0}, {4, 1, 1},
                                          kLegacyStream),
            CudaResult::kSuccess);
  ASSERT_EQ(Sync(0, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(1, number, 1), (std::vector<uint32_t>{6}));
  EXPECT_EQ(contexts_[1]->UnloadModule(module), CudaResult::kSuccess);
}

// A memory handle's place in the arena does not tell to which device it belongs.
TEST_P(PeerTest, AChunkBelongsToItsDeviceWhereverItLies) {
  const uint64_t twin = memory_[0] + 64 * kMiB;
  ASSERT_EQ(contexts_[1]->MapChunk(twin, kChunk, fds_[1].get()), CudaResult::kSuccess);
  Write(0, memory_[0], {8, 9}, kLegacyStream);
  ASSERT_EQ(contexts_[0]->CopyOnDevice(twin, memory_[0], 8, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(Sync(0, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(1, memory_[1], 2), (std::vector<uint32_t>{8, 9}));
  EXPECT_EQ(contexts_[1]->SetChunkAccess(twin, kChunk, MemoryAccess::kRead), CudaResult::kSuccess);
  EXPECT_EQ(contexts_[1]->UnmapChunk(twin, kChunk), CudaResult::kSuccess);
}

// Asks each backend for two devices if it has as many as it is asked for, else for all that it has.
std::vector<std::string> Pairs() {
  std::vector<std::string> pairs;
  for (const BackendName& backend : BackendNames()) {
    pairs.push_back(std::string(backend.name) + (backend.several ? ":2" : ""));
  }
  return pairs;
}

INSTANTIATE_TEST_SUITE_P(Backends, PeerTest, ::testing::ValuesIn(Pairs()), [](const auto& info) {
  return info.param.substr(0, info.param.find(':'));
});

TEST(CpuDevicesTest, AreAsManyAsAskedFor) {
  EXPECT_EQ((*OpenBackend("cpu"))->DeviceCount(), 1);
  EXPECT_EQ((*OpenBackend("cpu:3"))->DeviceCount(), 3);
  for (const char* name : {"cpu:0", "cpu:17", "cpu:", "cpu:x", "cpu:2x"}) {
    EXPECT_EQ(OpenBackend(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace warpline::device
