// Tests sessions with several devices.
#include <fcntl.h>

#include <utility>

#include "proto/devices.h"
#include "proto/graph_definition.h"
#include "server/hostlink/handover/journal_file.h"
#include "server/worker/testing/session_fixture.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kLegacy = 1;

constexpr uint64_t On(uint32_t device, uint64_t number) { return HandleOnDevice(device, number); }

class Charges : public MemoryCharger {
 public:
  CudaResult Charge(uint32_t device, uint64_t bytes) override {
    MutexLock lock(&mu_);
    by_device_[device] += static_cast<int64_t>(bytes);
    return CudaResult::kSuccess;
  }
  void Uncharge(uint32_t device, uint64_t bytes) override {
    MutexLock lock(&mu_);
    by_device_[device] -= static_cast<int64_t>(bytes);
  }
  int64_t of(uint32_t device) {
    MutexLock lock(&mu_);
    return by_device_[device];
  }

 private:
  Mutex mu_;
  std::map<uint32_t, int64_t> by_device_ ABSL_GUARDED_BY(mu_);
};

class SessionDevicesTest : public SessionTest {
 protected:
  void SetUp() override { Restart(BothDevices()); }
  HostedSession::Options BothDevices() {
    HostedSession::Options options = OptionsOf();
    options.devices = {{&first_, 4096}, {&second_, 8192}};
    options.charger = &charges_;
    options.memory = &memory_;
    return options;
  }
  // The contexts are destroyed before the base's session.
  void TearDown() override { session_.reset(); }

  // Loads a module and its kernel on a device; their numbers are 2 and 3.
  void LoadKernelOn(uint32_t device) {
    const uint64_t image = 90 + device;
    Add(cmd::ImageData{image, 5, 0}, "image");
    Add(cmd::ModuleLoad{On(device, 2), image});
    const uint64_t found = Add(cmd::KernelFind{On(device, 3), On(device, 2)}, "kernel");
    ASSERT_TRUE(Send().ok());
    replies_.Wait(found);
  }

  cmd::Launch LaunchOf(uint32_t kernel_device, uint64_t stream) {
    cmd::Launch launch = LaunchOn(stream);
    launch.kernel = On(kernel_device, 3);
    return launch;
  }

  CudaResult ResultOf(uint64_t seq) {
    CudaResult result = CudaResult::kUnknown;
    replies_.Wait(seq, &result);
    return result;
  }

  // Sends the commands, and waits for what the stream was given.
  void Sync(uint64_t stream) {
    const uint64_t seq = Add(cmd::StreamSync{stream});
    ASSERT_TRUE(Send().ok());
    EXPECT_EQ(ResultOf(seq), CudaResult::kSuccess);
  }

  // Opens a stream, and makes sure that it has its number on the device before anything else comes.
  void OpenStream(uint64_t stream) {
    AddStream(stream);
    Sync(stream);
  }

  bool Failed(uint64_t seq, CudaResult result) {
    const auto all = replies_.All();
    return std::any_of(all.begin(), all.end(), [&](const Replies::Entry& entry) {
      std::string_view body = entry.body;
      notice::Failed failed{};
      return entry.id == ReplyId::kFailed && entry.seq == seq && TakeStruct(&body, &failed) &&
             failed.result == static_cast<int32_t>(result);
    });
  }

  static bool Has(FakeContext* context, const std::string& start) {
    const auto log = context->log();
    return std::any_of(log.begin(), log.end(),
                       [&](const std::string& line) { return line.starts_with(start); });
  }

  std::shared_ptr<FakeStreams> streams_ = std::make_shared<FakeStreams>();
  FakeContext first_{streams_};
  FakeContext second_{streams_};
  VirtualMemory memory_{{&first_, &second_}};
  Charges charges_;
};

TEST_F(SessionDevicesTest, StreamsAndKernelsAreTheirDevices) {
  LoadKernelOn(0);
  LoadKernelOn(1);
  OpenStream(On(0, 20));
  OpenStream(On(1, 20));
  Add(cmd::Memset{On(0, 20), 1, 1, 5, 1});
  Add(cmd::Memset{On(1, 20), 1, 1, 6, 1});
  Add(LaunchOf(1, On(1, 20)), params_);
  Sync(On(0, 20));
  Sync(On(1, 20));
  EXPECT_TRUE(Has(&first_, "set@10 5"));
  EXPECT_TRUE(Has(&second_, "set@11 6"));
  EXPECT_TRUE(Has(&second_, "launch@11 "));
  EXPECT_FALSE(Has(&first_, "launch@"));
  const uint64_t elsewhere = Add(LaunchOf(0, On(1, 20)), params_);
  Sync(On(1, 20));
  EXPECT_TRUE(Failed(elsewhere, CudaResult::kInvalidHandle));
  EXPECT_FALSE(Has(&first_, "launch@"));
}

TEST_F(SessionDevicesTest, LegacyOrderHoldsForEachDeviceApart) {
  AddStream(On(0, 20), 0);
  // Holds the blocking stream's executor until it is answered.
  Add(cmd::HostCall{On(0, 20), 7});
  Add(cmd::Memset{On(0, kLegacy), 1, 1, 5, 1});
  Add(cmd::Memset{On(1, kLegacy), 1, 1, 6, 1});
  AddStream(On(1, 21), 0);
  Add(cmd::Memset{On(1, 21), 1, 1, 8, 1});
  Sync(On(1, kLegacy));
  Sync(On(1, 21));
  EXPECT_TRUE(Has(&second_, "set@1 6"));
  EXPECT_FALSE(Has(&first_, "set@1 5"));
  Add(cmd::HostDone{7});
  Sync(On(0, kLegacy));
  EXPECT_TRUE(Has(&first_, "set@1 5"));
}

TEST_F(SessionDevicesTest, AStreamWaitsForAnEventOfAnotherDevice) {
  OpenStream(On(0, 20));
  OpenStream(On(1, 20));
  Add(cmd::EventCreate{30, 2, 0});
  Add(cmd::HostCall{On(0, 20), 7});
  Add(cmd::EventRecord{30, On(0, 20)});
  Add(cmd::StreamWaitEvent{On(1, 20), 30});
  Add(cmd::Memset{On(1, 20), 1, 1, 6, 1});
  ASSERT_TRUE(Send().ok());
  // The other device's executor has not even issued the record.
  Sync(On(1, kLegacy));
  EXPECT_FALSE(Has(&second_, "set@11 6"));
  Add(cmd::HostDone{7});
  Sync(On(1, 20));
  const auto log = second_.log();
  EXPECT_NE(std::find(log.begin(), log.end(), "set@11 6"), log.end());
}

TEST_F(SessionDevicesTest, TheWaitIsMadeOnTheWaitersDevice) {
  OpenStream(On(0, 20));
  OpenStream(On(1, 20));
  first_.Stall(10);
  Add(cmd::EventCreate{30, 2, 0});
  Add(cmd::EventRecord{30, On(0, 20)});
  Add(cmd::StreamWaitEvent{On(1, 20), 30});
  Sync(On(1, 20));
  EXPECT_TRUE(Has(&second_, "wait@11 10"));
  EXPECT_FALSE(Has(&first_, "wait@"));
  first_.Resume(10);
  Add(cmd::EventRecord{30, On(1, 20)});
  Add(cmd::EventCreate{31, 0, 0});
  Add(cmd::EventRecord{31, On(0, 20)});
  Sync(On(0, 20));
  Sync(On(1, 20));
  const uint64_t elapsed = Add(cmd::EventElapsed{30, 31});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(elapsed), CudaResult::kInvalidHandle);
}

TEST_F(SessionDevicesTest, DeviceSyncWaitsForOneDeviceAndContextSyncForAll) {
  OpenStream(On(0, 20));
  first_.Stall(10);
  Add(cmd::Memset{On(0, 20), 1, 1, 5, 1});
  Add(cmd::Memset{On(1, kLegacy), 1, 1, 6, 1});
  const uint64_t all = Add(cmd::ContextSync{});
  const uint64_t stalled = Add(cmd::DeviceSync{0, 0});
  const uint64_t other = Add(cmd::DeviceSync{1, 0});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(other), CudaResult::kSuccess);
  EXPECT_FALSE(replies_.Has(ReplyId::kReply, stalled));
  EXPECT_FALSE(replies_.Has(ReplyId::kReply, all));
  first_.Resume(10);
  EXPECT_EQ(ResultOf(stalled), CudaResult::kSuccess);
  EXPECT_EQ(ResultOf(all), CudaResult::kSuccess);
}

TEST_F(SessionDevicesTest, DevicesThatAreNotThereAreRefused) {
  for (const uint32_t device : {2u, 9u, 255u}) {
    std::vector<std::pair<uint64_t, CudaResult>> told, asked;
    Add(cmd::ImageData{90, 5, 0}, "image");
    told.emplace_back(AddStream(On(device, 20)), CudaResult::kInvalidHandle);
    told.emplace_back(Add(cmd::Memset{On(device, kLegacy), 1, 1, 5, 1}),
                      CudaResult::kInvalidHandle);
    told.emplace_back(Add(cmd::ModuleLoad{On(device, 2), 90}), CudaResult::kInvalidHandle);
    told.emplace_back(Add(cmd::MemoryMap{1ull << 40, 2 * kMiB, On(device, 5), 3, 0}),
                      CudaResult::kInvalidValue);
    told.emplace_back(Add(cmd::TextureDestroy{0x77, 0, device}), CudaResult::kInvalidDevice);
    asked.emplace_back(Add(cmd::LinkCreate{On(device, 4)}), CudaResult::kInvalidHandle);
    cmd::ArrayCreate array{};
    array.array = On(device, 6);
    array.width = 64;
    asked.emplace_back(Add(array), CudaResult::kInvalidHandle);
    asked.emplace_back(Add(cmd::GraphCreate{On(device, 7), 90}), CudaResult::kInvalidHandle);
    cmd::TextureCreate texture{};
    texture.resource = On(device, 6);
    asked.emplace_back(Add(texture), CudaResult::kInvalidHandle);
    asked.emplace_back(Add(cmd::LimitGet{0, device}), CudaResult::kInvalidDevice);
    asked.emplace_back(Add(cmd::LimitSet{1024, 0, device}), CudaResult::kInvalidDevice);
    asked.emplace_back(Add(cmd::DeviceSync{device, 0}), CudaResult::kInvalidDevice);
    ASSERT_TRUE(Send().ok());
    for (const auto& [seq, result] : asked) EXPECT_EQ(ResultOf(seq), result) << seq;
    for (const auto& [seq, result] : told) EXPECT_TRUE(Failed(seq, result)) << seq;
  }
  EXPECT_EQ(memory_.Hold(On(2, 5), 2 * kMiB, UniqueFd()), CudaResult::kInvalidValue);
}

// A part of an array belongs to the device of its whole, whatever its number says.
TEST_F(SessionDevicesTest, PartsOfArraysAreOfTheSameDevice) {
  cmd::ArrayCreate array{};
  array.array = On(0, 6);
  array.width = 64;
  Add(array);
  std::vector<uint64_t> parts, textures;
  for (const uint32_t device : {1u, 2u, 255u}) {
    parts.push_back(Add(cmd::ArrayPart{On(device, 7), On(0, 6), 0, 0}));
    cmd::TextureCreate texture{};
    texture.resource = On(device, 7);
    texture.kind = 2;  // CU_RESOURCE_TYPE_LINEAR
    textures.push_back(Add(texture));
  }
  ASSERT_TRUE(Send().ok());
  for (const uint64_t seq : parts) EXPECT_EQ(ResultOf(seq), CudaResult::kInvalidHandle);
  for (const uint64_t seq : textures) EXPECT_EQ(ResultOf(seq), CudaResult::kInvalidHandle);
}

// The legacy streams of all devices exist from the start and stay.
TEST_F(SessionDevicesTest, ReservedStreamsAreNobodys) {
  const uint64_t destroyed = Add(cmd::StreamDestroy{On(1, kLegacy)});
  const uint64_t created = AddStream(On(1, 2));
  Sync(On(1, kLegacy));
  EXPECT_TRUE(Failed(destroyed, CudaResult::kInvalidHandle));
  EXPECT_TRUE(Failed(created, CudaResult::kInvalidHandle));
}

TEST_F(SessionDevicesTest, LimitsAreOfOneDevice) {
  constexpr int kStack = 0;
  const uint64_t first = Add(cmd::LimitSet{4097, kStack, 0});
  const uint64_t second = Add(cmd::LimitSet{4097, kStack, 1});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(first), CudaResult::kInvalidValue);
  EXPECT_EQ(ResultOf(second), CudaResult::kSuccess);
  uint64_t value = 0;
  first_.GetLimit(kStack, &value);
  EXPECT_EQ(value, 1024u);
  second_.GetLimit(kStack, &value);
  EXPECT_EQ(value, 4097u);
}

TEST_F(SessionDevicesTest, ArraysAndTexturesAreTheirDevices) {
  cmd::ArrayCreate array{};
  array.array = On(1, 6);
  array.width = 64;
  array.format = 3;
  array.channels = 1;
  const uint64_t created = Add(array);
  cmd::TextureCreate texture{};
  texture.resource = On(1, 6);
  const uint64_t textured = Add(texture);
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(created), CudaResult::kSuccess);
  EXPECT_EQ(ResultOf(textured), CudaResult::kSuccess);
  EXPECT_TRUE(Has(&second_, "array@"));
  EXPECT_TRUE(Has(&second_, "texture@"));
  EXPECT_EQ(charges_.of(0), 0);
  EXPECT_GT(charges_.of(1), 0);
  // The number belongs to another object there.
  const uint64_t wrong = Add(cmd::TextureDestroy{0x77, 0, 0});
  Add(cmd::TextureDestroy{0x77, 0, 1});
  Add(cmd::ArrayDestroy{On(1, 6)});
  const uint64_t sync = Add(cmd::ContextSync{});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(sync), CudaResult::kSuccess);
  EXPECT_TRUE(Failed(wrong, CudaResult::kInvalidValue));
  EXPECT_TRUE(Has(&second_, "free-texture@"));
  EXPECT_TRUE(Has(&second_, "free-array@"));
  EXPECT_EQ(charges_.of(1), 0);
  EXPECT_TRUE(first_.log().empty());
}

TEST_F(SessionDevicesTest, ATextureOfPlainMemoryIsTheDevicesInWhosePartThatLies) {
  constexpr uint64_t kBase = 1ull << 40, kBytes = 1ull << 32;
  HostedSession::Options options = BothDevices();
  options.arena_base = kBase;
  options.arena_bytes = kBytes;
  Restart(std::move(options));
  cmd::TextureCreate texture{};
  texture.kind = 2;
  for (const uint64_t address : {kBase + kBytes / 2, kBase, kBase + kBytes}) {
    texture.address = address;
    const uint64_t seq = Add(texture);
    ASSERT_TRUE(Send().ok());
    EXPECT_EQ(ResultOf(seq), CudaResult::kSuccess);
  }
  const auto count = [](FakeContext* context) { return context->log().size(); };
  EXPECT_EQ(count(&first_), 2u);
  EXPECT_EQ(count(&second_), 1u);
}

TEST_F(SessionDevicesTest, AMemoryHandleIsItsDevicesWhereverItIsMapped) {
  ASSERT_EQ(memory_.Hold(On(1, 5), 2 * kMiB, UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC))),
            CudaResult::kSuccess);
  Add(cmd::MemoryMap{1ull << 40, 2 * kMiB, On(1, 5), 3, 0});
  Add(cmd::MemoryAccess{1ull << 40, 1, 0});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(second_.chunks(), (FakeContext::Chunks{{1ull << 40, {2 * kMiB, 1}}}));
  Add(cmd::MemoryUnmap{1ull << 40, 42});
  ASSERT_TRUE(Send().ok());
  EXPECT_TRUE(second_.chunks().empty());
  EXPECT_TRUE(first_.chunks().empty());
}

TEST_F(SessionDevicesTest, AGraphOverDevicesIsIssuedInOneOrder) {
  LoadKernelOn(0);
  LoadKernelOn(1);
  AddStream(On(0, 20));
  const auto fields = [](const auto& command) {
    return std::string_view(reinterpret_cast<const char*>(&command), sizeof(command));
  };
  const auto add = [&](const auto& command, CommandId id, const std::string& tail,
                       std::vector<uint32_t> after, std::string* to) {
    AppendGraphStep(static_cast<uint32_t>(id), after, fields(command), tail, to);
  };
  std::string definition;
  add(LaunchOf(0, 0), CommandId::kLaunch, params_, {}, &definition);
  add(LaunchOf(1, 0), CommandId::kLaunch, params_, {0}, &definition);
  add(cmd::Memset{0, 0x1000, 4, 6, 4}, CommandId::kMemset, "", {1}, &definition);
  Add(cmd::ImageData{77, definition.size(), 0}, definition);
  const uint64_t created = Add(cmd::GraphCreate{On(0, 50), 77});
  Add(cmd::GraphLaunch{On(0, 20), On(0, 50)});
  Sync(On(0, 20));
  EXPECT_EQ(ResultOf(created), CudaResult::kSuccess);
  // The other device's stream, 11, is the executor's own and was made for this.
  EXPECT_EQ(first_.log(), (std::vector<std::string>{"launch@10 77x1", "wait@10 11", "set@10 6"}));
  EXPECT_EQ(second_.log(), (std::vector<std::string>{"wait@11 10", "launch@11 77x1"}));
  // A stream of the other device can launch it, too.
  Add(cmd::GraphLaunch{On(1, kLegacy), On(0, 50)});
  Sync(On(1, kLegacy));
  EXPECT_TRUE(Has(&second_, "wait@1 12"));
  EXPECT_TRUE(Has(&second_, "launch@1 77x1"));
}

TEST_F(SessionDevicesTest, AFaultOfOneDeviceEndsTheSession) {
  second_.Break(CudaResult::kIllegalAddress);
  Add(cmd::Memset{On(1, kLegacy), 1, 1, 5, 1});
  const uint64_t second = Add(cmd::StreamSync{On(1, kLegacy)});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(second), CudaResult::kIllegalAddress);
  const uint64_t first = Add(cmd::StreamSync{On(0, kLegacy)});
  ASSERT_TRUE(Send().ok());
  EXPECT_EQ(ResultOf(first), CudaResult::kIllegalAddress);
}

TEST_F(SessionDevicesTest, TheSessionDoesNotOutliveItsWorker) {
  auto file = JournalFile::Create();
  ASSERT_TRUE(file.ok()) << file.status();
  auto journal = Journal::Open(UniqueFd(dup((*file)->fd())));
  ASSERT_TRUE(journal.ok()) << journal.status();
  Recorder recorder(journal->get(), 1ull << 40, 1ull << 32);
  HostedSession::Options options = BothDevices();
  options.recorder = &recorder;
  Restart(std::move(options));
  EXPECT_EQ((*file)->flags() & kJournalDevices, kJournalDevices);
  EXPECT_EQ(session_->Replay(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->SaveVariables(-1).code(), absl::StatusCode::kFailedPrecondition);
  session_.reset();
}

}  // namespace
}  // namespace warpline::worker
