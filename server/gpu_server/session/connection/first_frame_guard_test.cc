#include "server/gpu_server/session/connection/first_frame_guard.h"

#include <memory>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {
namespace {

class FakeChannel : public Channel {
 public:
  const char* transport() const override { return "fake"; }
  void Wake() override {}
  void Close(const absl::Status& status) override {
    MutexLock lock(&mu_);
    closed_ = status;
    changed_.NotifyAll();
  }
  absl::Status AwaitClosed() {
    MutexLock lock(&mu_);
    while (closed_.ok()) changed_.Wait(&mu_);
    return closed_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  absl::Status closed_ ABSL_GUARDED_BY(mu_);
};

TEST(FirstFrameGuardTest, SilentChannelIsClosed) {
  EventLoop loop("control", &control_loop);
  FakeChannel channel;
  const auto guard = FirstFrameGuard::Start(&loop, absl::Milliseconds(20));
  guard->Watch(&channel);
  EXPECT_TRUE(absl::IsDeadlineExceeded(channel.AwaitClosed()));
  guard->Release();
}

TEST(FirstFrameGuardTest, NothingIsLeftOfOneThatWasReleased) {
  EventLoop loop("control", &control_loop);
  FakeChannel channel;
  auto guard = FirstFrameGuard::Start(&loop, absl::Hours(1));
  guard->Watch(&channel);
  guard->Release();
  guard->Release();
  const std::weak_ptr<FirstFrameGuard> watched = guard;
  guard.reset();
  loop.Flush();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace warpline::server
