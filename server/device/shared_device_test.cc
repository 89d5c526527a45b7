// Tests every backend's shared device: sessions side by side in one hardware context.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/cuda/cuda_numbers.h"
#include "common/cuda/cuda_result.h"
#include "common/sealed_memory.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "server/device/device.h"
#include "server/device/testing/device_fixture.h"

namespace warpline::device {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kArenaBytes = 4096 * kMiB;
constexpr uint64_t kChunkBytes = 2 * kMiB;
constexpr uint64_t kStagingBytes = 1 * kMiB;
constexpr uint64_t kZone = Memory::kZoneBytes;
// ThreadSanitizer leaves programs little of the address space; the last base is one that it allows.
constexpr uint64_t kArenaBases[] = {0x300000000000, 0x340000000000, 0x7e9000000000};
constexpr LaunchConfig OneThread() { return {{1, 1, 1}, {1, 1, 1}, 0}; }

// A session with an arena that has one chunk, everything else of which is a sink.
struct Session {
  std::unique_ptr<Context> context;
  UniqueFd fd;
  uint64_t base = 0;    // Of the arena.
  uint64_t memory = 0;  // Where the chunk is.
  void* staging = nullptr;
  ModuleId module{};
};

class SharedDeviceTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto backend = OpenBackend(GetParam());
    if (!backend.ok()) GTEST_SKIP() << backend.status();
    backend_ = *std::move(backend);
    auto chunks = backend_->OpenChunkSource(0);
    ASSERT_TRUE(chunks.ok()) << chunks.status();
    chunks_ = *std::move(chunks);
    auto device = backend_->OpenShared(0, {kStagingBytes});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  // Opens a session at the first place that is free, or at `base`.
  void Open(Session* session, uint64_t base = 0, int multiprocessors = 0) {
    auto context = device_->OpenContext({multiprocessors});
    ASSERT_TRUE(context.ok()) << context.status();
    session->context = *std::move(context);
    std::vector<uint64_t> bases = {base};
    if (base == 0) {
      bases.clear();
      for (const uint64_t first : kArenaBases) {
        for (uint64_t i = 0; i < 4; ++i) bases.push_back(first + 2 * i * kArenaBytes);
      }
    }
    for (const uint64_t at : bases) {
      if (session->context->ReserveArena(at, kArenaBytes) == CudaResult::kSuccess) {
        session->base = at;
        break;
      }
    }
    ASSERT_NE(session->base, 0u);
    auto fd = chunks_->CreateChunk(kChunkBytes);
    ASSERT_TRUE(fd.ok()) << fd.status();
    session->fd = *std::move(fd);
    session->memory = session->base + 4 * kMiB;
    ASSERT_EQ(session->context->MapChunk(session->memory, kChunkBytes, session->fd.get()),
              CudaResult::kSuccess);
    ASSERT_EQ(session->context->AllocStaging(4096, &session->staging), CudaResult::kSuccess);
  }
  void OpenSealed(Session* session, int multiprocessors = 0) {
    ASSERT_NO_FATAL_FAILURE(Open(session, 0, multiprocessors));
    ASSERT_EQ(session->context->Seal(), CudaResult::kSuccess);
  }

  static CudaResult Sync(Session* session, StreamId stream) {
    EventId event{};
    CudaResult result = session->context->CreateEvent(2, &event);
    if (result == CudaResult::kSuccess) result = session->context->RecordEvent(event, stream);
    if (result != CudaResult::kSuccess) return result;
    do {
      result = session->context->QueryEvent(event);
      std::this_thread::yield();
    } while (result == CudaResult::kNotReady);
    session->context->DestroyEvent(event);
    return result;
  }

  static std::vector<uint32_t> Read(Session* session, uint64_t address, size_t count) {
    EXPECT_EQ(session->context->CopyFromDevice(session->staging, address, count * 4, kLegacyStream),
              CudaResult::kSuccess);
    EXPECT_EQ(Sync(session, kLegacyStream), CudaResult::kSuccess);
    const auto* words = static_cast<const uint32_t*>(session->staging);
    return {words, words + count};
  }

  static CudaResult Write(Session* session, uint64_t address, uint32_t word, StreamId stream) {
    return session->context->Memset(address, word, 4, 1, stream);
  }

  KernelId Find(Session* session, const char* name) {
    if (session->module == ModuleId{}) {
      EXPECT_EQ(session->context->LoadModule(DeviceFixture::Ptx(), &session->module),
                CudaResult::kSuccess);
    }
    KernelId kernel{};
    EXPECT_EQ(session->context->FindKernel(session->module, name, &kernel), CudaResult::kSuccess);
    return kernel;
  }

  // Launches a kernel with one parameter, an address.
  static CudaResult Launch(Session* session, KernelId kernel, uint64_t address, StreamId stream) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&address);
    return session->context->Launch(kernel, OneThread(), {bytes, sizeof(address)}, stream);
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ChunkSource> chunks_;
  std::unique_ptr<SharedDevice> device_;
};

TEST_P(SharedDeviceTest, SessionsWorkSideBySide) {
  Session one, other;
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&one));
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&other));
  uint32_t value = 7;
  for (Session* session : {&one, &other}) {
    EXPECT_EQ(session->context->Memset(session->memory, value, 4, 4, kLegacyStream),
              CudaResult::kSuccess);
    const uint32_t word = value + 1;
    EXPECT_EQ(session->context->CopyToDevice(session->memory + 4, &word, 4, kLegacyStream),
              CudaResult::kSuccess);
    EXPECT_EQ(
        session->context->CopyOnDevice(session->memory + 8, session->memory + 4, 4, kLegacyStream),
        CudaResult::kSuccess);
    EXPECT_EQ(Launch(session, Find(session, "store"), session->memory + 12, kLegacyStream),
              CudaResult::kSuccess);
    value += 10;
  }
  EXPECT_EQ(Read(&one, one.memory, 4), (std::vector<uint32_t>{7, 8, 8, 42}));
  EXPECT_EQ(Read(&other, other.memory, 4), (std::vector<uint32_t>{17, 18, 18, 42}));
}

TEST_P(SharedDeviceTest, StrayAccessesOfASealedArenaDoNoHarm) {
  Session session;
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&session));
  EXPECT_EQ(Write(&session, session.memory, 5, kLegacyStream), CudaResult::kSuccess);
  const KernelId store = Find(&session, "store");
  const uint64_t end = session.base + kArenaBytes;
  for (const uint64_t at :
       {session.base, session.base + 2 * kMiB, session.memory - 4, session.memory + kChunkBytes,
        session.base + 64 * kMiB, session.base + kArenaBytes / 2 + 4, end - 4, end, end + kZone - 4,
        session.base - 4, session.base - kZone}) {
    EXPECT_EQ(Launch(&session, store, at, kLegacyStream), CudaResult::kSuccess);
    EXPECT_EQ(Sync(&session, kLegacyStream), CudaResult::kSuccess) << std::hex << at;
  }
  EXPECT_EQ(Read(&session, session.memory, 1)[0], 5u);
  // What commands name is memory of the arena, and zones are none.
  EXPECT_EQ(Write(&session, end - 4, 1, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Write(&session, end, 1, kLegacyStream), CudaResult::kInvalidValue);
  EXPECT_EQ(Write(&session, session.base - 4, 1, kLegacyStream), CudaResult::kInvalidValue);
  EXPECT_EQ(Sync(&session, kLegacyStream), CudaResult::kSuccess);
}

TEST_P(SharedDeviceTest, SinksHoldZerosAndAreTheSessionsOwn) {
  Session session;
  ASSERT_NO_FATAL_FAILURE(Open(&session));
  EXPECT_EQ(session.context->own_bytes(), 0u);
  ASSERT_EQ(session.context->MapOwn(session.base, 2 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(session.context->own_bytes(), 2 * kMiB);
  ASSERT_EQ(session.context->Seal(), CudaResult::kSuccess);
  const uint64_t own = session.context->own_bytes();
  EXPECT_GT(own, 2 * kMiB);
  EXPECT_LE(own, 2 * kMiB + 128 * kMiB);
  for (const uint64_t at :
       {session.base, session.base + 2 * kMiB, session.base + kArenaBytes - 8}) {
    EXPECT_EQ(Read(&session, at, 2), (std::vector<uint32_t>{0, 0}));
  }
}

TEST_P(SharedDeviceTest, GranulesOfSinksAreTheSessionsOrRefused) {
  for (const uint64_t bad : {uint64_t{0}, 3 * kMiB, 2 * kZone}) {
    EXPECT_EQ(device_->OpenContext({.sink_granule_bytes = bad}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  Session session;
  ASSERT_NO_FATAL_FAILURE(Open(&session));
  auto context = device_->OpenContext({.sink_granule_bytes = 8 * kMiB});
  ASSERT_TRUE(context.ok()) << context.status();
  session.context->FreeStaging(session.staging);
  session.context = *std::move(context);
  ASSERT_EQ(session.context->ReserveArena(session.base, kArenaBytes), CudaResult::kSuccess);
  ASSERT_EQ(session.context->MapChunk(session.memory, kChunkBytes, session.fd.get()),
            CudaResult::kSuccess);
  ASSERT_EQ(session.context->Seal(), CudaResult::kSuccess);
  EXPECT_GE(session.context->own_bytes(), 8 * kMiB);
  EXPECT_LE(session.context->own_bytes(), 10 * kMiB);
}

TEST_P(SharedDeviceTest, ASealedContextMapsNothing) {
  Session session;
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&session));
  Context& context = *session.context;
  const uint64_t at = session.base + 1024 * kMiB;
  EXPECT_EQ(context.MapChunk(at, kChunkBytes, session.fd.get()), CudaResult::kNotSupported);
  EXPECT_EQ(context.UnmapChunk(session.memory, kChunkBytes), CudaResult::kNotSupported);
  EXPECT_EQ(context.MapSink(at, 2 * kMiB), CudaResult::kNotSupported);
  EXPECT_EQ(context.MapOwn(at, 2 * kMiB), CudaResult::kNotSupported);
  EXPECT_EQ(context.SetChunkAccess(session.memory, kChunkBytes, MemoryAccess::kRead),
            CudaResult::kNotSupported);
  EXPECT_EQ(context.Seal(), CudaResult::kNotSupported);
  EXPECT_EQ(context.MapHost(0x500000000000, kChunkBytes, session.fd.get()),
            CudaResult::kNotSupported);
  EXPECT_EQ(Write(&session, session.memory, 5, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(&session, session.memory, 1)[0], 5u);
}

TEST_P(SharedDeviceTest, MemoryLeavesAnUnsealedArenaAndComesBackWhileOthersWork) {
  Session session, other;
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&session));
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&other));
  Context& context = *session.context;
  const uint64_t own = context.own_bytes();
  const KernelId store = Find(&session, "store");
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(Write(&session, session.memory + 8, 5, kLegacyStream), CudaResult::kSuccess);
    EXPECT_EQ(Sync(&session, kLegacyStream), CudaResult::kSuccess);
    ASSERT_EQ(context.Unseal(), CudaResult::kSuccess);
    EXPECT_EQ(context.Unseal(), CudaResult::kNotSupported) << "is not sealed";
    ASSERT_EQ(context.UnmapChunk(session.memory, kChunkBytes), CudaResult::kSuccess);
    EXPECT_EQ(Launch(&other, Find(&other, "store"), other.memory, kLegacyStream),
              CudaResult::kSuccess);
    EXPECT_EQ(Sync(&other, kLegacyStream), CudaResult::kSuccess);
    auto fd = chunks_->CreateChunk(kChunkBytes);
    ASSERT_TRUE(fd.ok()) << fd.status();
    ASSERT_EQ(context.MapChunk(session.memory, kChunkBytes, fd->get()), CudaResult::kSuccess);
    ASSERT_EQ(context.Seal(), CudaResult::kSuccess);
    EXPECT_EQ(context.own_bytes(), own);
    EXPECT_EQ(Launch(&session, store, session.memory + 4, kLegacyStream), CudaResult::kSuccess);
    EXPECT_EQ(Launch(&session, store, session.memory - 4, kLegacyStream), CudaResult::kSuccess);
    EXPECT_EQ(Launch(&session, store, session.base - 4, kLegacyStream), CudaResult::kSuccess);
    EXPECT_EQ(Read(&session, session.memory, 3), (std::vector<uint32_t>{0, 42, 0}));
  }
}

TEST_P(SharedDeviceTest, ASealFillsWhatDidNotComeBack) {
  Session session;
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&session));
  Context& context = *session.context;
  const KernelId store = Find(&session, "store");
  ASSERT_EQ(context.Unseal(), CudaResult::kSuccess);
  ASSERT_EQ(context.UnmapChunk(session.memory, kChunkBytes), CudaResult::kSuccess);
  ASSERT_EQ(context.Seal(), CudaResult::kSuccess);
  EXPECT_EQ(Launch(&session, store, session.memory, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Sync(&session, kLegacyStream), CudaResult::kSuccess);
  // A chunk takes the place of the sink that lies there now.
  ASSERT_EQ(context.Unseal(), CudaResult::kSuccess);
  ASSERT_EQ(context.MapChunk(session.memory, kChunkBytes, session.fd.get()), CudaResult::kSuccess);
  ASSERT_EQ(context.Seal(), CudaResult::kSuccess);
  EXPECT_EQ(Launch(&session, store, session.memory, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(&session, session.memory, 1)[0], 42u);
}

TEST_P(SharedDeviceTest, AnArenaIsNotUnsealedWhileItsWorkIsUnderWay) {
  Session session;
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&session));
  Context& context = *session.context;
  const KernelId spin = Find(&session, "spin");
  EXPECT_EQ(Write(&session, session.memory, 0, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Launch(&session, spin, session.memory, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(context.Unseal(), CudaResult::kNotReady);
  EXPECT_EQ(context.UnmapChunk(session.memory, kChunkBytes), CudaResult::kNotSupported);
  StreamId stream{};
  ASSERT_EQ(context.CreateStream(kStreamNonBlocking, 0, &stream), CudaResult::kSuccess);
  EXPECT_EQ(Write(&session, session.memory, 1, stream), CudaResult::kSuccess);
  EXPECT_EQ(Sync(&session, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Sync(&session, stream), CudaResult::kSuccess);
  EXPECT_EQ(context.Unseal(), CudaResult::kSuccess);
}

TEST_P(SharedDeviceTest, ASessionCopiesThroughItsWindow) {
  constexpr uint64_t kNamed = 0x500000000000;
  constexpr uint64_t kWindowBytes = 1 * kMiB;
  const auto file = NewSealedMemory("window", kWindowBytes);
  const auto fresh = NewSealedMemory("window", kWindowBytes);
  ASSERT_TRUE(file.ok() && fresh.ok());
  const auto window = device_->OpenWindow(file->get(), kWindowBytes);
  ASSERT_TRUE(window.ok()) << window.status();
  {
    Session session, other;
    ASSERT_NO_FATAL_FAILURE(OpenSealed(&session));
    ASSERT_NO_FATAL_FAILURE(OpenSealed(&other));
    ASSERT_EQ(session.context->ShowHost(kNamed, kWindowBytes, (*window)->host()),
              CudaResult::kSuccess);
    uint32_t word = 77;
    ASSERT_EQ(pwrite(file->get(), &word, 4, 4096), 4);
    EXPECT_EQ(session.context->CopyOnDevice(session.memory, kNamed + 4096, 4, kLegacyStream),
              CudaResult::kSuccess);
    EXPECT_EQ(Read(&session, session.memory, 1)[0], 77u);
    EXPECT_EQ(Write(&session, session.memory, 78, kLegacyStream), CudaResult::kSuccess);
    EXPECT_EQ(
        session.context->CopyOnDevice(kNamed + kWindowBytes - 4, session.memory, 4, kLegacyStream),
        CudaResult::kSuccess);
    EXPECT_EQ(Sync(&session, kLegacyStream), CudaResult::kSuccess);
    ASSERT_EQ(pread(file->get(), &word, 4, kWindowBytes - 4), 4);
    EXPECT_EQ(word, 78u);
    EXPECT_EQ(other.context->CopyOnDevice(other.memory, kNamed, 4, kLegacyStream),
              CudaResult::kInvalidValue);
    EXPECT_EQ(session.context->UnmapHost(kNamed + 4096, 4096), CudaResult::kInvalidValue);
  }
  ASSERT_TRUE((*window)->Replace(fresh->get()).ok());
  ASSERT_EQ(pwrite(file->get(), "old", 3, 0), 3);
  EXPECT_EQ(*static_cast<const char*>((*window)->host()), 0);
}

TEST_P(SharedDeviceTest, LimitsStayAsTheyAre) {
  Session session;
  ASSERT_NO_FATAL_FAILURE(Open(&session));
  constexpr int kStackSize = 0;
  uint64_t bytes = 0;
  ASSERT_EQ(session.context->GetLimit(kStackSize, &bytes), CudaResult::kSuccess);
  EXPECT_EQ(session.context->SetLimit(kStackSize, bytes), CudaResult::kSuccess);
  EXPECT_EQ(session.context->SetLimit(kStackSize, bytes / 2), CudaResult::kSuccess);
  EXPECT_EQ(session.context->SetLimit(kStackSize, bytes + 1), CudaResult::kNotSupported);
  uint64_t now = 0;
  EXPECT_EQ(session.context->GetLimit(kStackSize, &now), CudaResult::kSuccess);
  EXPECT_EQ(now, bytes);
}

TEST_P(SharedDeviceTest, OneSessionDoesNotNameWhatIsAnothers) {
  Session one, other;
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&one));
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&other));
  EXPECT_EQ(Write(&one, other.memory, 1, kLegacyStream), CudaResult::kInvalidValue);
  EXPECT_EQ(other.context->CopyToDevice(one.memory, one.staging, 4, kLegacyStream),
            CudaResult::kInvalidValue);
  EXPECT_EQ(other.context->CopyOnDevice(other.memory, one.memory, 4, kLegacyStream),
            CudaResult::kInvalidValue);
  Find(&one, "store");
  uint64_t table = 0, bytes = 0;
  ASSERT_EQ(one.context->FindGlobal(one.module, "table", &table, &bytes), CudaResult::kSuccess);
  EXPECT_EQ(Write(&one, table, 9, kLegacyStream), CudaResult::kInvalidValue) << "not named yet";
  one.context->AddVariable(table, bytes, table);
  EXPECT_EQ(Write(&one, table, 9, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Write(&other, table, 9, kLegacyStream), CudaResult::kInvalidValue);
  EXPECT_EQ(Sync(&one, kLegacyStream), CudaResult::kSuccess);
}

TEST_P(SharedDeviceTest, WhatASessionHadIsFreeWhenItHasEnded) {
  for (int i = 0; i < 3; ++i) {
    Session session;
    ASSERT_NO_FATAL_FAILURE(OpenSealed(&session));
    const uint64_t base = session.base;
    // Half of it is left, and the events, streams, the module and the rest of the memory are, too.
    void* half = nullptr;
    ASSERT_EQ(session.context->AllocStaging(kStagingBytes / 2 + 4096, &half), CudaResult::kSuccess);
    EXPECT_EQ(session.context->AllocStaging(kStagingBytes / 2, &half), CudaResult::kOutOfMemory);
    StreamId stream{};
    EventId event{};
    EXPECT_EQ(session.context->CreateStream(0, 0, &stream), CudaResult::kSuccess);
    EXPECT_EQ(session.context->CreateEvent(0, &event), CudaResult::kSuccess);
    EXPECT_EQ(Launch(&session, Find(&session, "store"), session.memory, stream),
              CudaResult::kSuccess);
    EXPECT_EQ(Sync(&session, stream), CudaResult::kSuccess);
    session.context.reset();
    Session next;
    ASSERT_NO_FATAL_FAILURE(Open(&next, base));
    EXPECT_EQ(next.base, base);
  }
}

TEST_P(SharedDeviceTest, StagingIsGivenBackWithoutItsContents) {
  Session one, other;
  ASSERT_NO_FATAL_FAILURE(Open(&one));
  ASSERT_NO_FATAL_FAILURE(Open(&other));
  void* taken = nullptr;
  const size_t rest = kStagingBytes - 2 * 4096;
  ASSERT_EQ(one.context->AllocStaging(rest, &taken), CudaResult::kSuccess);
  static_cast<char*>(taken)[7] = 1;
  void* more = nullptr;
  EXPECT_EQ(other.context->AllocStaging(1, &more), CudaResult::kOutOfMemory);
  other.context->FreeStaging(taken);
  EXPECT_EQ(other.context->AllocStaging(1, &more), CudaResult::kOutOfMemory) << "another's";
  one.context->FreeStaging(taken);
  ASSERT_EQ(other.context->AllocStaging(rest, &more), CudaResult::kSuccess);
  EXPECT_EQ(static_cast<char*>(more)[7], 0);
}

TEST_P(SharedDeviceTest, TheLegacyStreamAndBlockingStreamsAreInOrder) {
  Session session;
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&session));
  Context& context = *session.context;
  StreamId blocking{}, apart{};
  ASSERT_EQ(context.CreateStream(0, 0, &blocking), CudaResult::kSuccess);
  ASSERT_EQ(context.CreateStream(kStreamNonBlocking, 0, &apart), CudaResult::kSuccess);
  EXPECT_EQ(context.Memset(session.memory, 0, 4, 8, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Sync(&session, kLegacyStream), CudaResult::kSuccess);
  const KernelId spin = Find(&session, "spin");
  EXPECT_EQ(context.QueryIdle(), CudaResult::kSuccess);
  ASSERT_EQ(Launch(&session, spin, session.memory, blocking), CudaResult::kSuccess);
  // Each of these copies what the one before it has made.
  ASSERT_EQ(context.CopyOnDevice(session.memory + 8, session.memory + 4, 4, kLegacyStream),
            CudaResult::kSuccess);
  ASSERT_EQ(context.CopyOnDevice(session.memory + 12, session.memory + 8, 4, blocking),
            CudaResult::kSuccess);
  ASSERT_EQ(context.CopyOnDevice(session.memory + 16, session.memory + 12, 4, kLegacyStream),
            CudaResult::kSuccess);
  EventId event{};
  ASSERT_EQ(context.CreateEvent(2, &event), CudaResult::kSuccess);
  ASSERT_EQ(context.RecordEvent(event, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(context.QueryEvent(event), CudaResult::kNotReady);
  EXPECT_EQ(context.QueryIdle(), CudaResult::kNotReady);
  EXPECT_EQ(context.DestroyStream(blocking), CudaResult::kSuccess);
  EXPECT_EQ(context.QueryIdle(), CudaResult::kNotReady);
  // This one waits for none of them.
  EXPECT_EQ(Write(&session, session.memory + 20, 3, apart), CudaResult::kSuccess);
  EXPECT_EQ(Sync(&session, apart), CudaResult::kSuccess);
  EXPECT_EQ(Write(&session, session.memory, 1, apart), CudaResult::kSuccess);
  EXPECT_EQ(Read(&session, session.memory, 6), (std::vector<uint32_t>{1, 1, 1, 1, 1, 3}));
  EXPECT_EQ(Sync(&session, apart), CudaResult::kSuccess);
  EXPECT_EQ(context.QueryIdle(), CudaResult::kSuccess);
}

TEST_P(SharedDeviceTest, ASessionDoesNotWaitForAnothersStreams) {
  Session one, other;
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&one));
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&other));
  StreamId apart{};
  ASSERT_EQ(one.context->CreateStream(kStreamNonBlocking, 0, &apart), CudaResult::kSuccess);
  EXPECT_EQ(one.context->Memset(one.memory, 0, 4, 2, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Sync(&one, kLegacyStream), CudaResult::kSuccess);
  ASSERT_EQ(Launch(&one, Find(&one, "spin"), one.memory, kLegacyStream), CudaResult::kSuccess);
  // The kernel runs on while another session does all this.
  EXPECT_EQ(Write(&other, other.memory, 4, kLegacyStream), CudaResult::kSuccess);
  EXPECT_EQ(Read(&other, other.memory, 1)[0], 4u);
  EXPECT_EQ(other.context->QueryIdle(), CudaResult::kSuccess);
  Session third;
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&third));
  third.context.reset();
  EXPECT_EQ(one.context->QueryIdle(), CudaResult::kNotReady);
  EXPECT_EQ(Write(&one, one.memory, 1, apart), CudaResult::kSuccess);
  EXPECT_EQ(Read(&one, one.memory, 2), (std::vector<uint32_t>{1, 1}));
}

TEST_P(SharedDeviceTest, SessionsRunOnPartsOfTheDevice) {
  std::vector<Session> sessions(3);
  int multiprocessors = 1;
  for (Session& session : sessions) {
    ASSERT_NO_FATAL_FAILURE(OpenSealed(&session, multiprocessors));
    EXPECT_EQ(Launch(&session, Find(&session, "store"), session.memory, kLegacyStream),
              CudaResult::kSuccess);
    multiprocessors *= 32;
  }
  for (Session& session : sessions) EXPECT_EQ(Read(&session, session.memory, 1)[0], 42u);
}

// The limit is far below what CUDA allows. A graph gets it when it is made.
TEST_P(SharedDeviceTest, GridsThatWouldNotEndInTimeAreRefused) {
  Session session;
  ASSERT_NO_FATAL_FAILURE(OpenSealed(&session));
  const KernelId store = Find(&session, "store");
  const auto* const address = reinterpret_cast<const std::byte*>(&session.memory);
  GraphNode node;
  node.kind = GraphNode::Kind::kLaunch;
  node.kernel = store;
  node.config = OneThread();
  node.params = {address, sizeof(session.memory)};
  for (const bool is_cooperative : {false, true}) {
    node.config.cooperative = is_cooperative;
    node.config.grid = {(uint32_t{1} << 31) - 1, 2, 1};
    EXPECT_EQ(session.context->Launch(store, node.config, node.params, kLegacyStream),
              CudaResult::kInvalidValue);
    GraphId graph{};
    EXPECT_EQ(session.context->CreateGraph({&node, 1}, &graph), CudaResult::kInvalidValue);
  }
  node.config.cooperative = false;
  node.config.grid = {1, 2, 1};
  EXPECT_EQ(session.context->Launch(store, node.config, node.params, kLegacyStream),
            CudaResult::kSuccess);
  EXPECT_EQ(Read(&session, session.memory, 1)[0], 42u);
}

// Each block stores the number of its multiprocessor, and stays a while, so that they spread.
constexpr char kWhere[] = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry where(.param .u64 to)
{
  .reg .b64 %a<3>, %t<3>;
  .reg .b32 %r<3>;
  .reg .pred %p<2>;
  ld.param.u64 %a1, [to];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %a2, %r1, 4;
  add.s64 %a1, %a1, %a2;
  mov.u32 %r2, %smid;
  st.global.u32 [%a1], %r2;
  mov.u64 %t1, %clock64;
STAY:
  mov.u64 %t2, %clock64;
  sub.s64 %t2, %t2, %t1;
  setp.lt.s64 %p1, %t2, 20000;
  @%p1 bra STAY;
  ret;
}
)";

TEST_P(SharedDeviceTest, NoTwoSessionsThatWorkUseOneMultiprocessor) {
  if (GetParam() == "cpu") GTEST_SKIP() << "the CPU device has no multiprocessors to divide";
  constexpr uint32_t kBlocks = 1056;
  std::vector<Session> sessions(2);
  for (Session& session : sessions) {
    ASSERT_NO_FATAL_FAILURE(OpenSealed(&session));
    ASSERT_EQ(session.context->LoadModule(kWhere, &session.module), CudaResult::kSuccess);
  }
  const auto run = [&](Session* session, bool as_graph) {
    const KernelId where = Find(session, "where");
    const auto* bytes = reinterpret_cast<const std::byte*>(&session->memory);
    const LaunchConfig config = {{kBlocks, 1, 1}, {256, 1, 1}, 0};
    if (as_graph) {
      GraphNode node;
      node.kind = GraphNode::Kind::kLaunch;
      node.kernel = where;
      node.config = config;
      node.params = {bytes, sizeof(session->memory)};
      GraphId graph{};
      EXPECT_EQ(session->context->CreateGraph({&node, 1}, &graph), CudaResult::kSuccess);
      EXPECT_EQ(session->context->LaunchGraph(graph, kLegacyStream), CudaResult::kSuccess);
      EXPECT_EQ(session->context->DestroyGraph(graph), CudaResult::kSuccess);
    } else {
      EXPECT_EQ(
          session->context->Launch(where, config, {bytes, sizeof(session->memory)}, kLegacyStream),
          CudaResult::kSuccess);
    }
  };
  const auto used = [&](Session* session) {
    const std::vector<uint32_t> all = Read(session, session->memory, 1024);
    return std::set<uint32_t>(all.begin(), all.end());
  };
  run(&sessions[0], false);
  const size_t whole = used(&sessions[0]).size();
  for (const bool as_graph : {false, true}) {
    for (int round = 0; round < 2; ++round) {
      for (Session& session : sessions) run(&session, as_graph);
    }
    const std::set<uint32_t> one = used(&sessions[0]), other = used(&sessions[1]);
    EXPECT_LE(one.size() + other.size(), whole);
    EXPECT_GE(one.size(), whole / 3) << as_graph;
    EXPECT_GE(other.size(), whole / 3) << as_graph;
    for (const uint32_t multiprocessor : one) {
      EXPECT_FALSE(other.contains(multiprocessor)) << multiprocessor << ", " << as_graph;
    }
  }
}

// A context that has its device to itself has neither.
TEST_P(SharedDeviceTest, OtherContextsAreNotSealed) {
  auto context = backend_->OpenContext(0);
  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ((*context)->Seal(), CudaResult::kNotSupported);
  EXPECT_EQ((*context)->QueryIdle(), CudaResult::kNotSupported);
  EXPECT_EQ((*context)->own_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Backends, SharedDeviceTest, testing::ValuesIn(DeviceFixture::Backends()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace warpline::device
