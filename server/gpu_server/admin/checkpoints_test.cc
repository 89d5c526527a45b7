#include "server/gpu_server/admin/checkpoints.h"

#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::server {
namespace {

using warpline_internal::CheckpointReply;
using warpline_internal::CheckpointRequest;

constexpr uint64_t kGranule = SwapSpace::kGranule;

class CheckpointsTest : public testing::Test {
 protected:
  CheckpointsTest() : space_(*SwapSpace::Open(kGranule, 1)) { Make(space_.get()); }

  void Make(SwapSpace* space) {
    const auto act = [this](const CheckpointOrder& order, CheckpointProgress* progress) {
      orders_.push_back(order);
      progress->bytes = 7 * kGranule;
      progress->done_bytes = 3 * kGranule;
      return outcome_.get_future().get();
    };
    checkpoints_ =
        std::make_unique<Checkpoints>(CheckpointActions{.save = act, .restore = act}, space);
  }

  static CheckpointRequest Request(const std::string& number) {
    CheckpointRequest request;
    request.set_number(number);
    request.set_folder("/folder");
    request.set_session(7);
    return request;
  }

  absl::StatusOr<CheckpointReply> Ask(const CheckpointRequest& request) {
    const auto answer = checkpoints_->Answer(request.SerializeAsString());
    if (!answer.ok()) return answer.status();
    CheckpointReply reply;
    EXPECT_TRUE(reply.ParseFromString(*answer));
    return reply;
  }

  // Asks until it is over.
  CheckpointReply Await(CheckpointRequest request) {
    request.set_only_ask(true);
    while (true) {
      const auto reply = Ask(request);
      EXPECT_TRUE(reply.ok()) << reply.status();
      if (!reply.ok() || reply->state() != CheckpointReply::UNDER_WAY) return *reply;
    }
  }

  std::unique_ptr<SwapSpace> space_;
  std::promise<absl::StatusOr<CheckpointResult>> outcome_;
  std::vector<CheckpointOrder> orders_;
  std::unique_ptr<Checkpoints> checkpoints_;
};

TEST_F(CheckpointsTest, TellsWhatWasDone) {
  CheckpointRequest request = Request("one");
  request.set_deadline_ms(~0u);
  EXPECT_EQ(Ask(request)->state(), CheckpointReply::UNDER_WAY);
  // A request that is repeated begins nothing.
  EXPECT_EQ(Ask(request)->state(), CheckpointReply::UNDER_WAY);
  EXPECT_TRUE(absl::IsResourceExhausted(Ask(Request("two")).status()));
  outcome_.set_value(CheckpointResult{.sessions = 2,
                                      .bytes = 5 * kGranule,
                                      .written_bytes = kGranule,
                                      .pause = absl::Milliseconds(1234)});
  const CheckpointReply reply = Await(request);
  EXPECT_EQ(reply.state(), CheckpointReply::DONE);
  EXPECT_EQ(reply.sessions(), 2u);
  EXPECT_EQ(reply.bytes(), 5 * kGranule);
  EXPECT_EQ(reply.done_bytes(), 3 * kGranule);
  EXPECT_EQ(reply.written_bytes(), kGranule);
  EXPECT_EQ(reply.pause_ms(), 1234u);
  ASSERT_EQ(orders_.size(), 1u);
  EXPECT_EQ(orders_[0].session, 7u);
  EXPECT_EQ(orders_[0].deadline, absl::Minutes(1));
  EXPECT_EQ(orders_[0].space, space_.get());
}

TEST_F(CheckpointsTest, TellsWhyNotAndTakesAnotherOne) {
  CheckpointRequest request = Request("one");
  request.set_action(CheckpointRequest::RESTORE);
  ASSERT_TRUE(Ask(request).ok());
  outcome_.set_value(absl::NotFoundError("no folder"));
  const CheckpointReply reply = Await(request);
  EXPECT_EQ(reply.state(), CheckpointReply::FAILED);
  EXPECT_EQ(reply.why(), "no folder");
  outcome_ = {};
  outcome_.set_value(CheckpointResult{});
  ASSERT_TRUE(Ask(Request("two")).ok());
  EXPECT_EQ(Await(Request("two")).state(), CheckpointReply::DONE);
  EXPECT_EQ(Await(request).state(), CheckpointReply::UNKNOWN);
}

TEST_F(CheckpointsTest, RefusesWhatIsNoRequest) {
  const std::pair<const char*, std::function<void(CheckpointRequest*)>> wrong[] = {
      {"no number", [](CheckpointRequest* r) { r->clear_number(); }},
      {"a long number", [](CheckpointRequest* r) { r->set_number(std::string(65, 'n')); }},
      {"no folder", [](CheckpointRequest* r) { r->clear_folder(); }},
      {"a relative folder", [](CheckpointRequest* r) { r->set_folder("folder"); }},
      {"a long folder", [](CheckpointRequest* r) { r->set_folder("/" + std::string(4096, 'f')); }},
      {"nothing to save", [](CheckpointRequest* r) { r->clear_session(); }},
      {"two things to save", [](CheckpointRequest* r) { r->set_lease("lease"); }},
      {"a long lease", [](CheckpointRequest* r) { r->set_lease(std::string(257, 'l')); }},
      {"a long device", [](CheckpointRequest* r) { r->set_device(std::string(257, 'd')); }},
      {"another action",
       [](CheckpointRequest* r) { r->set_action(static_cast<CheckpointRequest::Action>(9)); }},
  };
  for (const auto& [what, change] : wrong) {
    CheckpointRequest request = Request("one");
    change(&request);
    EXPECT_TRUE(absl::IsInvalidArgument(Ask(request).status())) << what;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(checkpoints_->Answer("\xff").status()));
  EXPECT_TRUE(orders_.empty());
  CheckpointRequest stranger = Request("one");
  stranger.set_only_ask(true);
  EXPECT_EQ(Ask(stranger)->state(), CheckpointReply::UNKNOWN);
}

TEST_F(CheckpointsTest, NeedsHostMemory) {
  Make(nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(Ask(Request("one")).status()));
}

TEST_F(CheckpointsTest, RequestsAreRecorded) {
  CheckpointRequest request = Request("one");
  const auto record = DescribeCheckpoint(request.SerializeAsString());
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->event, audit::Event::kAdminCheckpoint);
  EXPECT_EQ(record->session, 7u);
  request.set_only_ask(true);
  EXPECT_FALSE(DescribeCheckpoint(request.SerializeAsString()).has_value());
}

}  // namespace
}  // namespace warpline::server
