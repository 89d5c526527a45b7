// What becomes of sessions where an audit is recorded, or should be and cannot.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "audit/audit_log.h"
#include "audit/files.h"
#include "gtest/gtest.h"
#include "server/gpu_server/session/session_host.h"
#include "server/gpu_server/testing/session_fixture.h"
#include "transport/testing/temp_folder.h"

namespace warpline::server {
namespace {

class SessionAuditTest : public SessionFixture {
 protected:
  void Record(audit::AuditLogOptions options) {
    options.writer.dir = dir_;
    options.say_anchor = [](const std::string&, const audit::Anchor&) {};
    auto log = audit::AuditLog::Open(std::move(options));
    ASSERT_TRUE(log.ok()) << log.status();
    audit_ = *std::move(log);
    options_.audit = audit_.get();
  }

  // What was recorded. Ends the server.
  std::vector<audit::Line> Lines() {
    TearDown();
    server_.reset();
    audit_.reset();
    std::vector<audit::Line> lines;
    audit::LineReader reader(*audit::OpenFile(dir_, 1));
    while (const auto text = reader.Next()) {
      auto line = audit::ParseLine(*text);
      EXPECT_TRUE(line.ok()) << *text;
      if (line.ok()) lines.push_back(*std::move(line));
    }
    return lines;
  }
  std::vector<std::string> Events() {
    std::vector<std::string> events;
    for (const audit::Line& line : Lines()) events.push_back(line.event);
    return events;
  }

  warpline::testing::TempFolder temp_;
  const std::string dir_ = temp_.path() + "/audit";
  std::unique_ptr<audit::AuditLog> audit_;
};

TEST_F(SessionAuditTest, ASessionsLifeIsRecorded) {
  Record({});
  StartServer();
  auto client = DialAndOpen();
  client->SendCommands(Body('x'));
  EXPECT_TRUE(client->Await(kFault).has_value());
  client.reset();
  EXPECT_EQ(Events(), (std::vector<std::string>{"audit.began", "session.opened", "worker.died",
                                                "session.faulted", "session.closed"}));
}

TEST_F(SessionAuditTest, ASessionThatIsEndedForWhatItsWorkerDoesSaysWhy) {
  Record({});
  StartServer();
  auto client = DialAndOpen();
  auto neighbour = DialAndOpen();
  host_->EndSession(1, "it does not keep to its turns");
  const auto payload = client->Await(kFault);
  ASSERT_TRUE(payload.has_value());
  warpline_internal::Fault fault;
  ASSERT_TRUE(fault.ParseFromString(*payload));
  EXPECT_EQ(fault.message(), "it does not keep to its turns");
  EXPECT_TRUE(fault.memory_kept());
  // It is over, and a session that there is not is nobody's matter.
  host_->EndSession(1, "again");
  host_->EndSession(99, "nobody");
  neighbour->SendCommands(Body('e'));
  EXPECT_TRUE(neighbour->Await(kReplies).has_value());
  client.reset();
  neighbour.reset();
  bool killed = false;
  for (const audit::Line& line : Lines()) {
    if (line.event != "worker.killed") continue;
    killed = true;
    EXPECT_EQ(line.Field("session"), "1");
    EXPECT_EQ(line.Field("reason"), "it does not keep to its turns");
  }
  EXPECT_TRUE(killed);
}

TEST_F(SessionAuditTest, ForWhichTenantALeaseWasEndedIsTheOperatorsAlone) {
  Record({});
  StartServer();
  std::string token;
  const auto lease = leases_->OpenLocal(0, {}, 0, &token);
  ASSERT_TRUE(lease.ok()) << lease.status();
  auto hello = TestClient::GoodHello();
  hello.set_token(token);
  auto client = Dial();
  ASSERT_TRUE(client->Open(hello).has_value());
  host_->EndLease(lease->lease,
                  {"tenant acme needs its device and goes first", EndCause::kMakesWay});
  const auto payload = client->Await(kFault);
  ASSERT_TRUE(payload.has_value());
  warpline_internal::Fault fault;
  ASSERT_TRUE(fault.ParseFromString(*payload));
  EXPECT_EQ(fault.message(), "the lease was ended: a request that goes first needs its device");
  client.reset();
  std::string recorded;
  for (const audit::Line& line : Lines()) {
    if (line.event == "lease.revoked") recorded = line.Field("reason");
  }
  EXPECT_EQ(recorded, "the lease was ended: tenant acme needs its device and goes first");
}

TEST_F(SessionAuditTest, ARefusalIsRecorded) {
  Record({});
  options_.max_sessions = 1;
  StartServer();
  auto first = DialAndOpen();
  auto second = Dial();
  EXPECT_FALSE(second->Open().has_value());
  second.reset();
  first.reset();
  EXPECT_EQ(Events(), (std::vector<std::string>{"audit.began", "session.opened", "session.refused",
                                                "session.closed"}));
}

TEST_F(SessionAuditTest, WhoWantsToGoOnWithoutTheSecretIsRecordedWithTheAddress) {
  Record({});
  StartServer();
  auto client = Dial();
  warpline_internal::Welcome guessed;
  guessed.set_session(5);
  guessed.set_secret("a guess");
  EXPECT_FALSE(client->Resume(guessed, 1, 0).has_value());
  client.reset();
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].event, "session.refused");
  EXPECT_EQ(lines[1].Field("session"), "5");
  EXPECT_NE(lines[1].Field("peer"), "");
}

TEST_F(SessionAuditTest, WhoShowsATokenThatDoesNotHoldIsRecorded) {
  lease_options_.required = true;
  Record({});
  StartServer();
  auto client = Dial();
  EXPECT_FALSE(client->Open().has_value());
  client.reset();
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].event, "session.refused");
  EXPECT_NE(lines[1].Field("peer"), "");
}

TEST_F(SessionAuditTest, WhereARecordIsRequiredAndCannotBeWrittenNoSessionBegins) {
  // No record has room.
  Record({.required = true, .max_waiting = 0});
  StartServer();
  auto client = Dial();
  EXPECT_FALSE(client->Open().has_value());
  EXPECT_EQ(client->AwaitClosed().message(), "the server cannot write its audit's record");
}

}  // namespace
}  // namespace warpline::server
