#include "server/gpu_server/session/connection/session_port.h"

#include <vector>

#include "gtest/gtest.h"

namespace warpline::server {
namespace {

class FakeChannel : public Channel {
 public:
  const char* transport() const override { return "fake"; }
  void Wake() override {}
  void Close(const absl::Status& status) override { closed.push_back(status.code()); }

  std::vector<absl::StatusCode> closed;
};

TEST(SessionPortTest, FollowerWaitsForTheFormerChannelsEnd) {
  SessionPort port;
  FakeChannel first, second, third;
  ASSERT_TRUE(port.Attach(&first));
  EXPECT_EQ(port.Follow(&second, 1), SessionPort::Follows::kAnother);
  EXPECT_EQ(port.Follow(&third, 2), SessionPort::Follows::kAnother);
  EXPECT_EQ(second.closed.size(), 1u);
  EXPECT_TRUE(port.Holds(&first));
  port.Detach(&second);
  port.Detach(&first);
  EXPECT_TRUE(port.Holds(&third));
  EXPECT_TRUE(third.closed.empty());
}

// The client comes back at the moment at which the session gives it up.
TEST(SessionPortTest, ChannelThatIsThereAtTheEndIsClosed) {
  SessionPort port;
  FakeChannel channel, follower, late;
  EXPECT_EQ(port.Follow(&channel, 1), SessionPort::Follows::kNothing);
  EXPECT_EQ(port.Follow(&follower, 2), SessionPort::Follows::kAnother);
  port.Shut();
  EXPECT_EQ(channel.closed.back(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(follower.closed.back(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(port.Follow(&late, 3), SessionPort::Follows::kRefused);
}

}  // namespace
}  // namespace warpline::server
