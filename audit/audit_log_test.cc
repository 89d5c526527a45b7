#include "audit/audit_log.h"

#include <fcntl.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "audit/audited_method.h"
#include "audit/chain.h"
#include "audit/files.h"
#include "audit/full_disk.h"
#include "common/log/log_capture.h"
#include "gtest/gtest.h"
#include "transport/testing/temp_folder.h"

namespace warpline::audit {
namespace {

class AuditLogTest : public ::testing::Test {
 protected:
  std::unique_ptr<AuditLog> Open(AuditLogOptions options = {}) {
    options.writer.dir = dir_;
    options.say_anchor = [this](const std::string&, const Anchor& anchor) {
      anchors_.push_back(anchor);
      anchored_ = anchors_.size();
    };
    auto log = AuditLog::Open(std::move(options));
    EXPECT_TRUE(log.ok()) << log.status();
    return log.ok() ? *std::move(log) : nullptr;
  }

  // The same, where no time passes for the budgets.
  std::unique_ptr<AuditLog> OpenAtRest() {
    AuditLogOptions options = {.max_waiting = 200'000};
    options.budget.clock = [] { return int64_t{1}; };
    return Open(std::move(options));
  }

  std::vector<Line> Lines() {
    std::vector<Line> lines;
    const auto files = ListFiles(dir_);
    for (const uint64_t number : *files) {
      LineReader reader(*OpenFile(dir_, number));
      while (const auto text = reader.Next()) lines.push_back(*ParseLine(*text));
    }
    return lines;
  }
  size_t Count(const std::string& event) {
    size_t count = 0;
    for (const Line& line : Lines()) count += line.event == event ? 1 : 0;
    return count;
  }
  // The sum of a field of all lines.
  uint64_t Sum(const std::string& field) {
    uint64_t sum = 0;
    for (const Line& line : Lines()) {
      if (!line.Field(field).empty()) sum += std::stoull(line.Field(field));
    }
    return sum;
  }

  LogCapture log_;
  testing::TempFolder temp_;
  const std::string dir_ = temp_.path() + "/audit";
  // Of the log's thread until the log is gone.
  std::vector<Anchor> anchors_;
  std::atomic<size_t> anchored_ = 0;
};

TEST_F(AuditLogTest, WhatIsAddedIsWrittenAndTheEndAnchored) {
  auto log = Open();
  for (uint64_t i = 1; i <= 50; ++i) log->Add({.event = Event::kSessionOpened, .session = i});
  log.reset();
  EXPECT_EQ(Count("session.opened"), 50u);
  ASSERT_EQ(anchors_.size(), 1u);
  EXPECT_EQ(anchors_[0].seq, 51u);
  EXPECT_TRUE(Verify(dir_, anchors_[0])->faults.empty());
}

TEST_F(AuditLogTest, TheHeadIsAnchoredAtIntervals) {
  auto log = Open({.anchor_interval = absl::Milliseconds(5)});
  while (anchored_.load() < 2) {
    log->Add({.event = Event::kServerStarted});
    absl::SleepFor(absl::Milliseconds(10));
  }
  log.reset();
  EXPECT_GT(anchors_.size(), 1u);
  for (const Anchor& anchor : anchors_) EXPECT_TRUE(Verify(dir_, anchor)->faults.empty());
}

TEST_F(AuditLogTest, AFloodIsBoundedAndCountedAndHidesNobody) {
  auto log = Open({.max_waiting = 200'000});
  for (int i = 0; i < 50'000; ++i) {
    log->Add({.event = Event::kSessionRefused, .peer = absl::StrCat("ipv4:10.0.0.1:", i)});
  }
  EXPECT_TRUE(log->Add({.event = Event::kSessionRefused, .peer = "ipv4:10.0.0.2:1"}));
  EXPECT_TRUE(log->Add({.event = Event::kSessionRefused, .tenant = "a"}));
  log.reset();
  const size_t said = Count("session.refused");
  EXPECT_LT(said, 200u);
  EXPECT_EQ(said + Sum("left_out"), 50'002u);
  EXPECT_EQ(Count("audit.left_out"), 1u);
  EXPECT_TRUE(Verify(dir_, std::nullopt)->faults.empty());
}

// The peers of an attack, each at a port of its own for each call.
std::string Peer(int address, int call) {
  return absl::StrCat("ipv4:10.0.0.", address, ":", 1024 + call);
}

TEST_F(AuditLogTest, PeersThatFloodDoNotHideTheRefusalsOfOthers) {
  for (const Event event :
       {Event::kSessionRefused, Event::kCredentialRefused, Event::kAdminTenant}) {
    auto log = OpenAtRest();
    const auto refuse = [&](int peer, int calls) {
      int recorded = 0;
      for (int i = 0; i < calls; ++i) {
        recorded += log->Add({.event = event, .peer = Peer(peer, i)}) ? 1 : 0;
      }
      return recorded;
    };
    const char* const name = InfoOf(event).name;
    // One floods, and two others are refused now and then.
    EXPECT_EQ(refuse(1, 10'000), 100) << name;
    EXPECT_EQ(refuse(2, 20), 20) << name;
    EXPECT_EQ(refuse(3, 20), 20) << name;
    // So many peers flood that they use up what all share. Others still have their part.
    for (int peer = 10; peer < 60; ++peer) refuse(peer, 1000);
    EXPECT_EQ(refuse(2, 5), 5) << name;
    EXPECT_EQ(refuse(100, 5), 5) << name;
    log.reset();
    EXPECT_EQ(Count(name) + Sum("left_out"), 60'050u) << name;
    std::filesystem::remove_all(dir_);
  }
}

TEST_F(AuditLogTest, APeerIsAllOfItsIpv6Network) {
  auto log = OpenAtRest();
  int recorded = 0;
  for (int i = 0; i < 10'000; ++i) {
    recorded += log->Add({.event = Event::kSessionRefused,
                          .peer = absl::StrCat("ipv6:[2001:db8::", absl::Hex(i + 1), "]:1024")})
                    ? 1
                    : 0;
  }
  EXPECT_EQ(recorded, 100);
}

TEST_F(AuditLogTest, ATenantsSessionsDoNotHideThatItsLeaseWasRevoked) {
  auto log = OpenAtRest();
  for (int i = 0; i < 2000; ++i) log->Add({.event = Event::kSessionOpened, .tenant = "a"});
  EXPECT_TRUE(log->Add({.event = Event::kLeaseRevoked, .tenant = "a"}));
}

TEST_F(AuditLogTest, NotesOfAPolicyDoNotHideThatItFailed) {
  auto log = OpenAtRest();
  for (int i = 0; i < 2000; ++i) log->Add({.event = Event::kPolicyNote});
  EXPECT_TRUE(log->Add({.event = Event::kPolicyFailed}));
}

TEST_F(AuditLogTest, EveryKindOfBudgetIsDocumented) {
  std::ifstream file(
      absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/docs/audit.md"));
  std::stringstream text;
  text << file.rdbuf();
  const KeyedLogBudgetOptions options = BudgetOptions();
  for (size_t kind = static_cast<size_t>(Bound::kSessions); kind < options.each.size(); ++kind) {
    EXPECT_STREQ(options.each[kind].name, options.all[kind].name);
    EXPECT_TRUE(
        absl::StrContains(text.str(), absl::StrCat("\n| `", options.each[kind].name, "` |")))
        << options.each[kind].name;
  }
}

TEST_F(AuditLogTest, AFullDiskIsSaidAndWhatWasLostCounted) {
  // Its file would be the one that does not grow.
  auto log = Open({.required = true, .max_waiting = 100});
  log->Add({.event = Event::kServerStarted});
  uint64_t added = 0, taken = 1;
  {
    const FullDisk full(2000);
    while (log->takes() || log->lost() == 0) {
      ++added;
      taken += log->Add({.event = Event::kSessionClosed}) ? 1 : 0;
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_LT(taken, 200u);
  }
  while (!log->takes()) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_TRUE(log->takes());
  log->Add({.event = Event::kServerStopped});
  log.reset();
  EXPECT_TRUE(Verify(dir_, anchors_.back())->faults.empty());
  EXPECT_EQ(Count("session.closed") + Sum("records"), added);
  EXPECT_GE(Count("audit.lost"), 1u);
}

TEST_F(AuditLogTest, WhereRecordsAreNotRequiredSessionsGoOn) {
  auto log = Open({.max_waiting = 10});
  const FullDisk full(200);
  for (int i = 0; i < 100; ++i) log->Add({.event = Event::kSessionClosed});
  EXPECT_TRUE(log->takes());
}

TEST_F(AuditLogTest, AnOperatorsCallIsRecordedWithItsOutcome) {
  auto log = Open();
  const Method method = Audited(
      log.get(),
      [](const std::string& request) -> std::optional<Record> {
        if (request == "look") return std::nullopt;
        return Record{.event = Event::kAdminReplace};
      },
      [](const std::string&, const std::string& request) -> absl::StatusOr<std::string> {
        if (request == "bad") return absl::PermissionDeniedError("not you");
        return request;
      });
  EXPECT_EQ(*method("me", "good"), "good");
  EXPECT_EQ(*method("me", "look"), "look");
  EXPECT_TRUE(absl::IsPermissionDenied(method("other", "bad").status()));
  log.reset();
  EXPECT_EQ(Count("admin.replace"), 2u);
  const Line refused = Lines().back();
  EXPECT_EQ(refused.Field("peer"), "other");
  EXPECT_EQ(refused.Field("outcome"), "PERMISSION_DENIED");
  EXPECT_EQ(refused.Field("reason"), "not you");
}

TEST_F(AuditLogTest, WhatWasDoneIsRecordedWhateverIsRefused) {
  auto log = OpenAtRest();
  const Method method = Audited(
      log.get(), [](const std::string&) { return Record{.event = Event::kAdminTenant}; },
      [](const std::string&, const std::string& request) -> absl::StatusOr<std::string> {
        if (request == "stranger") return absl::UnauthenticatedError("not you");
        return request;
      });
  // One of the strangers has the operator's own address, as processes of one host have.
  for (int i = 0; i < 6000; ++i) {
    EXPECT_FALSE(method(Peer(i % 3, i), "stranger").ok());
  }
  for (int i = 0; i < 3000; ++i) EXPECT_TRUE(method(Peer(0, i), "operator").ok());
  log.reset();
  size_t done = 0;
  for (const Line& line : Lines()) done += line.Field("outcome") == "OK" ? 1 : 0;
  EXPECT_EQ(done, 3000u);
  EXPECT_EQ(Count("admin.tenant") + Sum("left_out"), 9000u);
  EXPECT_TRUE(Verify(dir_, std::nullopt)->faults.empty());
}

TEST_F(AuditLogTest, WhereRecordsAreRequiredNothingIsDoneWithoutOne) {
  auto log = Open({.required = true, .refuses = "operators' actions"});
  int done = 0;
  const Method method = Audited(
      log.get(),
      [](const std::string& request) -> std::optional<Record> {
        if (request == "look") return std::nullopt;
        return Record{.event = Event::kAdminReplace};
      },
      [&](const std::string&, const std::string& request) -> absl::StatusOr<std::string> {
        done += request == "act" ? 1 : 0;
        return request;
      });
  EXPECT_TRUE(method("me", "act").ok());
  {
    // The log's file is smaller than that, and the record's is not.
    const FullDisk full(4000);
    for (int i = 0; i < 40; ++i) log->Add({.event = Event::kServerStarted});
    while (log->takes_operators()) absl::SleepFor(absl::Milliseconds(10));
    const auto refused = method("me", "act");
    EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
    EXPECT_TRUE(absl::StrContains(refused.status().message(), "operators' actions are refused"));
    EXPECT_TRUE(method("me", "look").ok());
    EXPECT_EQ(done, 1);
  }
  while (!log->takes_operators()) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_TRUE(method("me", "act").ok());
  EXPECT_EQ(done, 2);
  log.reset();
  EXPECT_EQ(log_.LinesWith(": operators' actions are refused").size(), 1u);
  // The call that was refused is recorded, too, as soon as the disk takes it.
  EXPECT_EQ(Count("admin.replace"), 3u);
  EXPECT_TRUE(Verify(dir_, std::nullopt)->faults.empty());
}

TEST_F(AuditLogTest, RecordsOfTenantsThatWaitLeaveRoomForThoseOfOperators) {
  auto log = Open({.required = true, .max_waiting = 100});
  const Record closed = {.event = Event::kSessionClosed};
  const Record act = {.event = Event::kAdminReplace, .done = true};
  {
    const FullDisk full(100);
    log->Add(closed);
    while (log->takes()) absl::SleepFor(absl::Milliseconds(10));
    for (int i = 0; i < 1000; ++i) log->Add(closed);
    EXPECT_FALSE(log->Add(closed));
    for (int i = 0; i < 25; ++i) EXPECT_TRUE(log->Add(act)) << i;
    EXPECT_FALSE(log->Add(act));
  }
  log.reset();
  EXPECT_EQ(Count("admin.replace"), 25u);
}

}  // namespace
}  // namespace warpline::audit
