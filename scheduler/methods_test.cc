// What operators and strangers ask of a scheduler, and what its audit has of that.
#include "scheduler/methods.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "audit/audit_log.h"
#include "audit/chain.h"
#include "audit/files.h"
#include "audit/full_disk.h"
#include "audit/record.h"
#include "common/log/log_capture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/scheduler.pb.h"
#include "scheduler/role.h"
#include "scheduler/scheduler_fixture.h"
#include "transport/testing/temp_folder.h"

namespace warpline::scheduler {
namespace {

using ::testing::HasSubstr;
using warpline_internal::TenantRequest;

constexpr char kOperator[] = "ipv4:127.0.0.1:40000";

class MethodsTest : public SchedulerTest {
 protected:
  void SetUp() override {
    SchedulerTest::SetUp();
    if (IsSkipped()) return;
    audit::AuditLogOptions options;
    options.writer.dir = dir_;
    options.required = true;
    options.refuses = "operators' actions";
    options.max_waiting = 20'000;
    options.say_anchor = [](const std::string&, const audit::Anchor&) {};
    options.budget.clock = [] { return int64_t{1}; };
    auto log = audit::AuditLog::Open(std::move(options));
    ASSERT_TRUE(log.ok()) << log.status();
    recorder_ = *std::move(log);
    role_ = std::make_unique<SoleRole>(std::move(scheduler_));
    methods_ = SchedulerMethods(role_.get(), "pool", recorder_.get(), &known_);
  }

  KnownCredentials known_;

  absl::Status Call(const std::string& method, const std::string& peer,
                    const std::string& credential, const std::string& name) {
    TenantRequest request;
    request.set_credential(credential);
    request.set_name(name);
    request.set_create(true);
    return methods_.at("/warpline_internal.Scheduler/" + method)(peer, request.SerializeAsString())
        .status();
  }

  // Everything that was recorded; ends the record.
  std::vector<audit::Line> Lines() {
    recorder_.reset();
    std::vector<audit::Line> lines;
    audit::LineReader reader(*audit::OpenFile(dir_, 1));
    while (const auto text = reader.Next()) lines.push_back(*audit::ParseLine(*text));
    return lines;
  }

  const testing::TempFolder temp_;
  const std::string dir_ = temp_.path() + "/audit";
  std::unique_ptr<audit::AuditLog> recorder_;
  std::unique_ptr<SoleRole> role_;
  UnaryMethods methods_;
};

INSTANTIATE_TEST_SUITE_P(States, MethodsTest, ::testing::Values(StateKind::kSqlite), StateKindName);

TEST_P(MethodsTest, StrangersDoNotSilenceTheRecordOfOperators) {
  // One of them is on the operator's own host.
  for (const char* const address : {"127.0.0.11", "127.0.0.12", "127.0.0.1"}) {
    for (int i = 0; i < 2000; ++i) {
      const std::string peer = absl::StrCat("ipv4:", address, ":", 1024 + i);
      ASSERT_FALSE(Call("PutTenant", peer, "x", "evil").ok());
    }
  }
  for (int i = 0; i < 30; ++i) {
    const std::string name = absl::StrCat("tenant", i);
    EXPECT_TRUE(Call("PutTenant", kOperator, "operator", name).ok());
    EXPECT_TRUE(Call("RemoveTenant", kOperator, "operator", name).ok());
  }
  // What an operator gets wrong is not taken for what was done.
  EXPECT_FALSE(Call("RemoveTenant", "ipv4:127.0.0.2:1", "operator", "nobody").ok());
  std::map<std::string, uint64_t> outcomes;
  std::map<std::string, uint64_t> refused;
  uint64_t left_out = 0;
  for (const audit::Line& line : Lines()) {
    const std::string peer = line.Field("peer");
    ++outcomes[line.Field("outcome")];
    if (line.Field("outcome") == "UNAUTHENTICATED") ++refused[peer.substr(0, peer.rfind(':'))];
    if (!line.Field("left_out").empty()) left_out += std::stoull(line.Field("left_out"));
  }
  EXPECT_EQ(outcomes["OK"], 60u);
  EXPECT_EQ(outcomes["NOT_FOUND"], 1u);
  EXPECT_EQ(refused.size(), 3u) << "each of the strangers is in the record";
  EXPECT_EQ(outcomes["UNAUTHENTICATED"] + left_out, 6000u);
  EXPECT_TRUE(audit::Verify(dir_, std::nullopt)->faults.empty());
}

TEST_P(MethodsTest, NothingIsChangedWithoutARecordWhereThatIsRequired) {
  LogCapture log;
  ASSERT_TRUE(Call("PutTenant", kOperator, "operator", "before").ok());
  {
    // The log's file is smaller than that, and the record's is not.
    const audit::FullDisk full(4000);
    for (int i = 0; i < 40; ++i) recorder_->Add({.event = audit::Event::kSchedulerStarted});
    while (recorder_->takes_operators()) absl::SleepFor(absl::Milliseconds(10));
    for (const char* const method :
         {"PutTenant", "RemoveTenant", "PutSlice", "RemoveSlice", "PutServer", "RemoveServer",
          "CordonServer", "Revoke", "Move"}) {
      const absl::Status refused = Call(method, kOperator, "operator", "before");
      EXPECT_TRUE(absl::IsUnavailable(refused)) << method << " " << refused;
      EXPECT_THAT(std::string(refused.message()), HasSubstr("operators' actions are refused"));
    }
    EXPECT_TRUE(Call("Tenants", kOperator, "operator", "").ok()) << "looking is no action";
  }
  while (!recorder_->takes_operators()) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(log.LinesWith(": operators' actions are refused").size(), 1u) << log.Text();
  EXPECT_TRUE(absl::IsAlreadyExists(Call("PutTenant", kOperator, "operator", "before")));
  EXPECT_TRUE(Call("PutTenant", kOperator, "operator", "after").ok());
  std::map<std::string, int> outcomes;
  for (const audit::Line& line : Lines()) ++outcomes[line.Field("outcome")];
  EXPECT_EQ(outcomes["UNAVAILABLE"], 9);
  EXPECT_EQ(outcomes["OK"], 2);
  EXPECT_TRUE(audit::Verify(dir_, std::nullopt)->faults.empty());
}

// The queues ask before anything else is done for a call.
TEST_P(MethodsTest, WhoseCredentialWasServedHasRoomOfItsOwn) {
  const UnaryMethodQueues queues = SchedulerQueues(methods_, &known_);
  TenantRequest request;
  request.set_credential("operator");
  request.set_name("a");
  request.set_create(true);
  const std::string bytes = request.SerializeAsString();
  const UnaryQueue& queue = queues.at("/warpline_internal.Scheduler/PutTenant");
  EXPECT_FALSE(queue.admit(kOperator, bytes)->known);
  EXPECT_EQ(queue.admit(kOperator, bytes)->name, queue.admit("ipv4:127.0.0.1:9", "other")->name);
  request.set_credential("wrong");
  const std::string wrong = request.SerializeAsString();
  EXPECT_FALSE(methods_.at("/warpline_internal.Scheduler/PutTenant")(kOperator, wrong).ok());
  EXPECT_FALSE(queue.admit(kOperator, wrong)->known);
  EXPECT_TRUE(methods_.at("/warpline_internal.Scheduler/PutTenant")(kOperator, bytes).ok());
  EXPECT_TRUE(queue.admit(kOperator, bytes)->known);
  EXPECT_TRUE(
      queues.at("/warpline_internal.Scheduler/Report").admit("ipv4:10.0.0.9:1", bytes)->known);
  EXPECT_FALSE(queue.admit(kOperator, wrong)->known);
}

TEST_P(MethodsTest, AMoveIsRecordedWhenItIsAskedForAndNotWhenItIsLookedAt) {
  warpline_internal::MoveRequest request;
  request.set_credential("operator");
  request.set_lease("1234");
  request.set_to("b");
  request.set_device("GPU-1");
  const auto& move = methods_.at("/warpline_internal.Scheduler/Move");
  EXPECT_TRUE(absl::IsNotFound(move(kOperator, request.SerializeAsString()).status()));
  request.set_only_ask(true);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(absl::IsNotFound(move(kOperator, request.SerializeAsString()).status()));
  }
  int recorded = 0;
  for (const audit::Line& line : Lines()) {
    if (line.event != "admin.move") continue;
    ++recorded;
    EXPECT_EQ(line.Field("lease"), "1234");
    EXPECT_EQ(line.Field("to"), "b");
    EXPECT_EQ(line.Field("device"), "GPU-1");
    EXPECT_EQ(line.Field("outcome"), "NOT_FOUND");
  }
  EXPECT_EQ(recorded, 1);
}

TEST_P(MethodsTest, ServersAskAboutMovesWithTheirCredentials) {
  warpline_internal::MoveCommit commit;
  commit.set_credential("x");
  commit.set_name("b");
  commit.set_ticket("t");
  EXPECT_TRUE(absl::IsUnauthenticated(
      methods_.at("/warpline_internal.Scheduler/CommitMove")(kOperator, commit.SerializeAsString())
          .status()));
  warpline_internal::MoveEnd end;
  end.set_credential("x");
  end.set_name("a");
  EXPECT_TRUE(absl::IsUnauthenticated(
      methods_.at("/warpline_internal.Scheduler/EndMove")(kOperator, end.SerializeAsString())
          .status()));
  EXPECT_FALSE(
      methods_.at("/warpline_internal.Scheduler/CommitMove")(kOperator, "no message").ok());
}

TEST_P(MethodsTest, RequestsHaveTheSizeOfTheirMethod) {
  const UnaryMethodQueues queues = SchedulerQueues(methods_, &known_);
  const std::string large(100'000, 'x');
  for (const auto& [path, queue] : queues) {
    const bool report = path == "/warpline_internal.Scheduler/Report" ||
                        path == "/warpline_internal.Scheduler/ReportSessions";
    EXPECT_EQ(queue.admit(kOperator, large).ok(), report) << path;
    EXPECT_EQ(queue.admit(kOperator, std::string(2 << 20, 'x')).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace warpline::scheduler
