// Tests the two processes of warpline-mps, as a server or its supervisor sees them, and that
// nothing is left of them however these end.
#include "server/mps/keep.h"

#include <signal.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/packets/packet_socket.h"
#include "gtest/gtest.h"
#include "proto/mps.pb.h"
#include "server/hostlink/process/child_process.h"
#include "server/mps/testing/fake_control.h"

namespace warpline::mps {
namespace {

class KeepTest : public testing::Test {
 protected:
  KeepTest() {
    ChildOptions options;
    options.path = absl::StrCat(getenv("TEST_SRCDIR"), "/warpline/server/mps/warpline-mps");
    auto process = ChildProcess::Start(options, &socket_);
    EXPECT_TRUE(process.ok()) << process.status();
    process_ = *std::move(process);
  }

  // Returns the process's answer.
  warpline_internal::MpsPrepared Prepare(const std::string& how = "control") {
    warpline_internal::PrepareMps order;
    control_ = InstallFakeControl(programs_.path(), how);
    order.set_control(control_);
    order.set_folder(place_.path());
    EXPECT_TRUE(SendPacket(socket_.get(), order, {}).ok());
    warpline_internal::MpsPrepared prepared;
    const absl::Status received = ReceivePacket(socket_.get(), &prepared, nullptr);
    EXPECT_TRUE(received.ok()) << received;
    return prepared;
  }
  pid_t daemon() const { return DaemonOf(place_.path() + "/pipe"); }
  // Waits until the second process has ended, and with it all that it has started.
  void AwaitEnd() {
    warpline_internal::MpsPrepared none;
    EXPECT_TRUE(absl::IsUnavailable(ReceivePacket(socket_.get(), &none, nullptr)));
  }

  const TestFolder programs_;
  const TestFolder place_;
  std::string control_;
  UniqueFd socket_;
  std::unique_ptr<ChildProcess> process_;
};

TEST_F(KeepTest, TheDaemonEndsWithTheServer) {
  ASSERT_EQ(Prepare().error(), "");
  const pid_t process = daemon();
  const pid_t server = AskFakeControl(control_, place_.path() + "/pipe", "get_server_list");
  ASSERT_TRUE(IsRunning(process));
  ASSERT_TRUE(IsRunning(server));
  socket_ = UniqueFd();
  EXPECT_EQ(process_->Reap().Describe(), "exit code 0");
  EXPECT_FALSE(IsRunning(process));
  EXPECT_FALSE(IsRunning(server));
  EXPECT_EQ(place_.List(), "");
}

TEST_F(KeepTest, TheDaemonEndsThoughItsProcessIsKilled) {
  ASSERT_EQ(Prepare().error(), "");
  const pid_t process = daemon();
  const pid_t server = AskFakeControl(control_, place_.path() + "/pipe", "get_server_list");
  process_->Kill();
  process_->Reap();
  AwaitEnd();
  EXPECT_FALSE(IsRunning(process));
  EXPECT_FALSE(IsRunning(server));
  EXPECT_EQ(place_.List(), "");
}

TEST_F(KeepTest, ItEndsWithTheDaemon) {
  ASSERT_EQ(Prepare().error(), "");
  kill(daemon(), SIGKILL);
  AwaitEnd();
  process_->Reap();
  EXPECT_EQ(place_.List(), "");
}

TEST_F(KeepTest, WhyThereIsNoneIsSaid) {
  EXPECT_NE(Prepare("dies").error().find("already running"), std::string::npos);
  AwaitEnd();
  process_->Reap();
}

TEST_F(KeepTest, AServerThatSaysNothingIsNoReasonToStay) {
  socket_ = UniqueFd();
  process_->Reap();
}

}  // namespace
}  // namespace warpline::mps
