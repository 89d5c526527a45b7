#include "server/worker/host/host_windows.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/sealed_memory.h"
#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kBytes = 4096;

// A device on which kernels run, or do not. Its windows have the numbers of their files.
class FakeDevice : public device::SharedDevice {
 public:
  class Window : public device::HostWindow {
   public:
    Window(FakeDevice* device, int fd) : device_(device), fd_(fd) {}
    void* host() const override {
      return fd_ < 0 ? nullptr : reinterpret_cast<void*>(uint64_t{4096} * (1 + uint64_t(fd_)));
    }
    uint64_t bytes() const override { return kBytes; }
    absl::Status Replace(int fd) override {
      MutexLock lock(&device_->mu_);
      ++device_->tries_;
      device_->changed_.NotifyAll();
      if (device_->busy_) return absl::UnavailableError("kernels run");
      fd_ = device_->fails_ ? -1 : fd;
      return device_->fails_ ? absl::InternalError("no") : absl::OkStatus();
    }

   private:
    FakeDevice* const device_;
    int fd_;
  };

  absl::StatusOr<std::unique_ptr<device::Context>> OpenContext(
      const device::SharedContextOptions&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<std::unique_ptr<device::HostWindow>> OpenWindow(int fd, uint64_t) override {
    if (fd < 0) return absl::UnavailableError("kernels run");
    return std::make_unique<Window>(this, fd);
  }
  void Look() override {}

  void Be(bool busy, bool fails = false) {
    MutexLock lock(&mu_);
    busy_ = busy;
    fails_ = fails;
  }
  void AwaitTries(int tries) {
    MutexLock lock(&mu_);
    while (tries_ < tries) changed_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool busy_ ABSL_GUARDED_BY(mu_) = false;
  bool fails_ ABSL_GUARDED_BY(mu_) = false;
  int tries_ ABSL_GUARDED_BY(mu_) = 0;
};

class HostWindowsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto windows = HostWindows::Start(
        &device_, {.pause = absl::Milliseconds(1), .most_pause = absl::Milliseconds(2)});
    ASSERT_TRUE(windows.ok());
    windows_ = *std::move(windows);
  }
  static UniqueFd File() {
    auto file = NewSealedMemory("window", kBytes);
    EXPECT_TRUE(file.ok());
    return *std::move(file);
  }
  HostWindows::Done Answer() {
    return [this](const absl::Status& status) {
      MutexLock lock(&mu_);
      answers_.push_back(status.code());
      answered_.NotifyAll();
    };
  }
  absl::StatusCode Await(size_t answer) {
    MutexLock lock(&mu_);
    while (answers_.size() <= answer) answered_.Wait(&mu_);
    return answers_[answer];
  }
  bool Answered() {
    MutexLock lock(&mu_);
    return !answers_.empty();
  }

  FakeDevice device_;
  Mutex mu_;
  CondVar answered_;
  std::vector<absl::StatusCode> answers_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<HostWindows> windows_;
};

TEST_F(HostWindowsTest, AWindowHasTheMemoryOfItsFile) {
  const UniqueFd file = File();
  EXPECT_FALSE(windows_->Find(3));
  ASSERT_TRUE(windows_->Open(3, file.get(), kBytes).ok());
  ASSERT_TRUE(windows_->Find(3));
  EXPECT_EQ(windows_->Find(3)->bytes, kBytes);
  EXPECT_TRUE(absl::IsAlreadyExists(windows_->Open(3, file.get(), kBytes)));
  EXPECT_TRUE(absl::IsUnavailable(windows_->Open(4, -1, kBytes)));
  EXPECT_FALSE(windows_->Find(4));
  ASSERT_TRUE(windows_->Open(4, file.get(), kBytes).ok()) << "it is not there yet";
}

TEST_F(HostWindowsTest, NobodyGetsAWindowBeforeItsMemoryIsReplaced) {
  const UniqueFd file = File();
  ASSERT_TRUE(windows_->Open(1, file.get(), kBytes).ok());
  const void* const before = windows_->Find(1)->host;
  device_.Be(/*busy=*/true);
  windows_->Replace(1, File(), Answer());
  device_.AwaitTries(3);
  EXPECT_FALSE(windows_->Find(1));
  EXPECT_FALSE(Answered());
  windows_->Replace(1, File(), [](const absl::Status& status) {
    EXPECT_TRUE(absl::IsNotFound(status)) << "one at a time";
  });
  device_.Be(/*busy=*/false);
  EXPECT_EQ(Await(0), absl::StatusCode::kOk);
  ASSERT_TRUE(windows_->Find(1));
  EXPECT_NE(windows_->Find(1)->host, before);
}

TEST_F(HostWindowsTest, WithoutAFileAWindowEnds) {
  const UniqueFd file = File();
  ASSERT_TRUE(windows_->Open(1, file.get(), kBytes).ok());
  windows_->Replace(1, UniqueFd(), Answer());
  EXPECT_EQ(Await(0), absl::StatusCode::kOk);
  EXPECT_FALSE(windows_->Find(1));
  windows_->Replace(1, File(), Answer());
  EXPECT_EQ(Await(1), absl::StatusCode::kNotFound);
}

TEST_F(HostWindowsTest, OneWhoseMemoryCannotBeLockedIsGone) {
  const UniqueFd file = File();
  ASSERT_TRUE(windows_->Open(1, file.get(), kBytes).ok());
  ASSERT_TRUE(windows_->Open(2, file.get(), kBytes).ok());
  device_.Be(/*busy=*/false, /*fails=*/true);
  windows_->Replace(1, File(), Answer());
  EXPECT_EQ(Await(0), absl::StatusCode::kInternal);
  EXPECT_FALSE(windows_->Find(1));
  EXPECT_TRUE(windows_->Find(2));
}

TEST_F(HostWindowsTest, ItsEndDoesNotWaitForAQuietMoment) {
  const UniqueFd file = File();
  ASSERT_TRUE(windows_->Open(1, file.get(), kBytes).ok());
  device_.Be(/*busy=*/true);
  windows_->Replace(1, File(), Answer());
  device_.AwaitTries(1);
  windows_ = nullptr;
  EXPECT_FALSE(Answered());
}

}  // namespace
}  // namespace warpline::worker
