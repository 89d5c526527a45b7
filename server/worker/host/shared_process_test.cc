// Tests the process of a shared device: whatever its sessions wait for, the thread that receives
// messages does not.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "common/sealed_memory.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "proto/frames.h"
#include "proto/guard.h"
#include "server/hostlink/handover/journal_file.h"
#include "server/hostlink/handover/worker_rings.h"
#include "server/worker/host/host_process.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kArenaBytes = 4ull << 30;
constexpr uint64_t kArenaBase = 0x300000000000;
constexpr uint64_t kArenaStep = 1ull << 40;  // An arena has zones before and after it.

// Holds up whoever passes it while it is closed.
class Barrier {
 public:
  void Close() { Set(false); }
  void Open() { Set(true); }
  void Pass() {
    MutexLock lock(&mu_);
    ++at_it_;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(&mu_);
    --at_it_;
  }
  // Waits until so many wait there.
  void AwaitHeld(int count) {
    MutexLock lock(&mu_);
    while (at_it_ < count) changed_.Wait(&mu_);
  }

 private:
  void Set(bool open) {
    MutexLock lock(&mu_);
    open_ = open;
    changed_.NotifyAll();
  }

  Mutex mu_;
  CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mu_) = true;
  int at_it_ ABSL_GUARDED_BY(mu_) = 0;
};

// The CPU device, which other work may hold up.
class BusyDevice : public device::SharedDevice {
 public:
  BusyDevice(std::unique_ptr<device::SharedDevice> device, Barrier* busy)
      : device_(std::move(device)), busy_(busy) {}
  absl::StatusOr<std::unique_ptr<device::Context>> OpenContext(
      const device::SharedContextOptions& options) override {
    busy_->Pass();
    return device_->OpenContext(options);
  }
  absl::StatusOr<std::unique_ptr<device::HostWindow>> OpenWindow(int fd, uint64_t bytes) override {
    return device_->OpenWindow(fd, bytes);
  }
  void Look() override { device_->Look(); }

 private:
  const std::unique_ptr<device::SharedDevice> device_;
  Barrier* const busy_;
};

class BusyBackend : public device::Backend {
 public:
  BusyBackend(std::unique_ptr<device::Backend> backend, Barrier* busy)
      : backend_(std::move(backend)), busy_(busy) {}
  int DeviceCount() override { return backend_->DeviceCount(); }
  absl::StatusOr<int> Find(int ordinal, const std::string& pci_bus_id) override {
    return backend_->Find(ordinal, pci_bus_id);
  }
  absl::StatusOr<device::DeviceInfo> Info(int ordinal) override { return backend_->Info(ordinal); }
  absl::StatusOr<std::vector<std::unique_ptr<device::Context>>> OpenContexts(
      absl::Span<const int> ordinals) override {
    return backend_->OpenContexts(ordinals);
  }
  absl::StatusOr<std::unique_ptr<device::SharedDevice>> OpenShared(
      int ordinal, const device::SharedDeviceOptions& options) override {
    auto shared = backend_->OpenShared(ordinal, options);
    if (!shared.ok()) return shared.status();
    return std::make_unique<BusyDevice>(*std::move(shared), busy_);
  }
  absl::StatusOr<std::unique_ptr<device::ChunkSource>> OpenChunkSource(int ordinal) override {
    return backend_->OpenChunkSource(ordinal);
  }

 private:
  const std::unique_ptr<device::Backend> backend_;
  Barrier* const busy_;
};

class SharedProcessTest : public testing::Test {
 protected:
  SharedProcessTest() : process_(new HostProcess(OptionsOf(&device_))) {
    warpline_internal::PrepareWorker prepare;
    prepare.set_backend("cpu");
    prepare.set_shared(true);
    EXPECT_TRUE(process_->Prepare(prepare).ok());
  }

  static HostProcess::Options OptionsOf(Barrier* device) {
    HostProcess::Options options;
    options.open_backend =
        [device](const std::string& name) -> absl::StatusOr<std::unique_ptr<device::Backend>> {
      auto backend = device::OpenBackend(name);
      if (!backend.ok()) return backend.status();
      return std::make_unique<BusyBackend>(*std::move(backend), device);
    };
    return options;
  }

  void Open(uint64_t session) {
    warpline_internal::OpenWorker open;
    open.set_backend("cpu");
    open.set_session(session);
    open.set_arena_base(kArenaBase + session * kArenaStep);
    open.set_arena_bytes(kArenaBytes);
    open.set_guard(static_cast<uint32_t>(GuardMode::kHardened));
    open.set_variable_room_bytes(2u << 20);
    open.set_sink_granule_bytes(8u << 20);
    rings_.push_back(*WorkerRings::Create(1 << 20));
    journals_.push_back(*JournalFile::Create());
    std::vector<UniqueFd> fds;
    for (const int fd : rings_.back()->child_fds()) fds.push_back(UniqueFd(dup(fd)));
    fds.push_back(UniqueFd(dup(journals_.back()->fd())));
    process_->Open(open, std::move(fds), [this](const absl::Status& status, ProcessSession*) {
      Say(status.ok() ? "opened" : std::string(status.message()));
    });
  }
  void Ask(uint64_t session) {
    process_->Ask(session, [this](ProcessSession* asked) {
      Say(asked == nullptr ? "asked nobody" : "asked");
    });
  }
  void Close(uint64_t session) {
    process_->Close(session, [this](bool hangs) { Say(hangs ? "hangs" : "closed"); });
  }

  void Say(const std::string& what) {
    MutexLock lock(&mu_);
    said_.push_back(what);
    changed_.NotifyAll();
  }
  // Waits until so much was said, and returns it.
  std::vector<std::string> Said(size_t count) {
    MutexLock lock(&mu_);
    while (said_.size() < count) changed_.Wait(&mu_);
    return said_;
  }

  Barrier device_;
  HostProcess* const process_;  // Never destroyed, as in the program.
  std::vector<std::shared_ptr<WorkerRings>> rings_;
  std::vector<std::unique_ptr<JournalFile>> journals_;
  Mutex mu_;
  CondVar changed_;
  std::vector<std::string> said_ ABSL_GUARDED_BY(mu_);
};

TEST_F(SharedProcessTest, ASessionThatWaitsForTheDeviceHoldsUpNoOther) {
  device_.Close();
  Open(1);
  device_.AwaitHeld(1);
  // What comes for it has its turn later, and this thread goes on.
  Ask(1);
  Ask(2);
  Open(2);
  device_.AwaitHeld(2);
  EXPECT_EQ(Said(1), std::vector<std::string>{"asked nobody"});
  device_.Open();
  std::vector<std::string> said = Said(4);
  EXPECT_EQ(std::count(said.begin(), said.end(), "opened"), 2);
  EXPECT_EQ(std::count(said.begin(), said.end(), "asked"), 1);
  Close(1);
  Close(2);
  said = Said(6);
  EXPECT_EQ(std::count(said.begin(), said.end(), "closed"), 2);
}

TEST_F(SharedProcessTest, ASessionThatIsBeingOpenedCanBeClosed) {
  device_.Close();
  Open(1);
  device_.AwaitHeld(1);
  Ask(1);
  Close(1);
  device_.Open();
  EXPECT_EQ(Said(2), (std::vector<std::string>{"the session is over", "closed"}));
  // Its number and its place are free again.
  Open(1);
  EXPECT_EQ(Said(3).back(), "opened");
  Close(1);
  EXPECT_EQ(Said(4).back(), "closed");
}

TEST_F(SharedProcessTest, ASessionHasTheWindowThatTheServerSays) {
  constexpr uint64_t kBytes = 64 << 10;
  const auto file = [] {
    auto made = NewSealedMemory("window", kBytes);
    EXPECT_TRUE(made.ok());
    return *std::move(made);
  };
  const auto replace = [this](uint32_t number, UniqueFd fd) {
    warpline_internal::ReplaceWindow request;
    request.set_number(number);
    request.set_bytes(kBytes);
    process_->ReplaceWindow(request, std::move(fd), [this](const absl::Status& status) {
      Say(status.ok() ? "replaced" : std::string(status.message()));
    });
  };
  const auto show = [this](uint64_t session, uint32_t number, std::vector<UniqueFd> fds) {
    warpline_internal::HostSegment segment;
    segment.set_va(kHostArenaBase);
    segment.set_bytes(kBytes);
    segment.set_window(number);
    process_->Ask(session, [this, segment, fds = std::move(fds)](ProcessSession* asked) {
      Say(CudaResultName(asked->memory->MapHost(segment, fds)));
    });
  };
  replace(1, file());
  EXPECT_EQ(Said(1).back(), "replaced");
  Open(1);
  Open(2);
  Said(3);
  show(1, 1, {});
  EXPECT_EQ(Said(4).back(), CudaResultName(CudaResult::kSuccess));
  show(1, 1, {});
  EXPECT_EQ(Said(5).back(), CudaResultName(CudaResult::kInvalidValue)) << "it has one";
  show(2, 7, {});
  EXPECT_EQ(Said(6).back(), CudaResultName(CudaResult::kInvalidValue)) << "there is none";
  std::vector<UniqueFd> former;
  former.push_back(file());
  show(2, 2, std::move(former));
  EXPECT_EQ(Said(7).back(), CudaResultName(CudaResult::kSuccess)) << "it brings its own";
  Close(1);
  EXPECT_EQ(Said(8).back(), "closed");
  replace(1, file());
  EXPECT_EQ(Said(9).back(), "replaced");
  replace(3, file());
  EXPECT_EQ(Said(10).back(), "there is no such window") << "none is made beside sessions";
  Close(2);
  EXPECT_EQ(Said(11).back(), "closed");
}

TEST_F(SharedProcessTest, OneThatCouldNotBeOpenedIsClosedLikeOthers) {
  Open(1);
  EXPECT_EQ(Said(1).back(), "opened");
  warpline_internal::OpenWorker open;
  open.set_backend("cpu");
  open.set_session(2);
  open.set_arena_base(kArenaBase + 2 * kArenaStep);
  open.set_arena_bytes(kArenaBytes);
  open.set_guard(static_cast<uint32_t>(GuardMode::kHardened));
  open.set_variable_room_bytes(2u << 20);
  open.set_sink_granule_bytes(8u << 20);
  process_->Open(open, {}, [this](const absl::Status& status, ProcessSession*) {
    Say(std::string(status.message()));
  });
  EXPECT_EQ(Said(2).back(), "descriptors of the rings");
  Ask(2);
  EXPECT_EQ(Said(3).back(), "asked nobody");
  Close(2);
  EXPECT_EQ(Said(4).back(), "closed");
  Close(1);
  EXPECT_EQ(Said(5).back(), "closed");
}

}  // namespace
}  // namespace warpline::worker
