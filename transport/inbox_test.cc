#include "transport/inbox.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace warpline {
namespace {

class Handler : public ChannelHandler {
 public:
  bool NextFrame(Frame*) override { return false; }
  Accept OnFrame(Frame* frame) override {
    if (!takes) return Accept::kLater;
    taken.push_back(frame->payload);
    return Accept::kTaken;
  }
  void OnClosed(const absl::Status&) override {}

  bool takes = true;
  std::vector<std::string> taken;
};

TEST(InboxTest, AFrameThatIsRefusedForNowIsOfferedAgain) {
  Handler handler;
  Inbox inbox;
  handler.takes = false;
  inbox.frame()->payload = "a";
  inbox.Deliver(&handler);
  EXPECT_TRUE(inbox.held());
  EXPECT_FALSE(inbox.OfferHeld(&handler));
  handler.takes = true;
  EXPECT_TRUE(inbox.OfferHeld(&handler));
  EXPECT_FALSE(inbox.held());
  EXPECT_FALSE(inbox.OfferHeld(&handler));
  EXPECT_EQ(handler.taken, std::vector<std::string>{"a"});
}

TEST(InboxTest, OnceShutItDropsWhatItHoldsAndWhatStillComes) {
  Handler handler;
  Inbox inbox;
  handler.takes = false;
  inbox.frame()->payload = "a";
  inbox.Deliver(&handler);
  inbox.Shut();
  handler.takes = true;
  EXPECT_FALSE(inbox.OfferHeld(&handler));
  inbox.frame()->payload = "b";
  inbox.Deliver(&handler);
  EXPECT_FALSE(inbox.held());
  EXPECT_EQ(handler.taken, std::vector<std::string>());
}

}  // namespace
}  // namespace warpline
