#include "server/gpu_server/audit/session_audit.h"

#include <string>
#include <utility>
#include <vector>

#include "audit/files.h"
#include "common/log/log_capture.h"
#include "gtest/gtest.h"
#include "transport/testing/temp_folder.h"

namespace warpline::server {
namespace {

ContentHash HashOfNumber(int number) {
  ContentHash hash = {};
  EXPECT_TRUE(HashContent(std::to_string(number), &hash));
  return hash;
}

class SessionAuditTest : public ::testing::Test {
 protected:
  SessionAuditTest() {
    control_loop.AssertOnLoop();
    audit::AuditLogOptions options;
    options.writer.dir = dir_;
    options.say_anchor = [](const std::string&, const audit::Anchor&) {};
    auto log = audit::AuditLog::Open(std::move(options));
    EXPECT_TRUE(log.ok()) << log.status();
    if (log.ok()) audit_ = *std::move(log);
    entitlement_.tenant = "acme";
    entitlement_.lease = "L1";
  }

  // Everything that was recorded of an event; ends the record.
  std::vector<audit::Line> Lines(const std::string& event) {
    audit_.reset();
    std::vector<audit::Line> lines;
    audit::LineReader reader(*audit::OpenFile(dir_, 1));
    while (const auto text = reader.Next()) {
      auto line = audit::ParseLine(*text);
      EXPECT_TRUE(line.ok()) << *text;
      if (line.ok() && line->event == event) lines.push_back(*std::move(line));
    }
    return lines;
  }

  LogCapture log_;
  warpline::testing::TempFolder temp_;
  const std::string dir_ = temp_.path() + "/audit";
  std::unique_ptr<audit::AuditLog> audit_;
  Entitlement entitlement_;
};

TEST_F(SessionAuditTest, RecordsNameTheSessionAndWhoseItIs) {
  control_loop.AssertOnLoop();
  SessionAudit session(audit_.get(), 7, "ipv4:127.0.0.1:1");
  session.SetEntitlement(entitlement_);
  session.Opened({.program = "python", .client_pid = 5, .worker_pid = 6, .devices = "0,1"});
  const auto lines = Lines("session.opened");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].Field("tenant"), "acme");
  EXPECT_EQ(lines[0].Field("lease"), "L1");
  EXPECT_EQ(lines[0].Field("session"), "7");
  EXPECT_EQ(lines[0].Field("devices"), "0,1");
}

TEST_F(SessionAuditTest, ASessionsFloodOfModulesIsBoundedAndCountedWhenItCloses) {
  control_loop.AssertOnLoop();
  SessionAudit session(audit_.get(), 7, "peer");
  session.Opened({});
  for (int i = 0; i < 5000; ++i) session.ModuleLoaded(HashOfNumber(i), 1, "worker");
  session.Closed("client closed", 3, 0);
  const auto closed = Lines("session.closed");
  const auto loaded = Lines("module.loaded");
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_LT(loaded.size(), 1100u);
  EXPECT_EQ(loaded.size() + std::stoull(closed[0].Field("modules_left_out")), 5000u);
}

TEST_F(SessionAuditTest, AnImageIsRecordedOnceAndItsRepetitionsAreCounted) {
  control_loop.AssertOnLoop();
  SessionAudit session(audit_.get(), 7, "peer");
  session.Opened({});
  for (int i = 0; i < 5000; ++i) session.ModuleLoaded(HashOfNumber(i % 2), 1, "worker");
  session.ModuleLoaded(HashOfNumber(0), 1, "cache");
  session.Closed("client closed", 3, 0);
  const auto closed = Lines("session.closed");
  const auto loaded = Lines("module.loaded");
  ASSERT_EQ(closed.size(), 1u);
  ASSERT_EQ(loaded.size(), 2u);
  EXPECT_EQ(loaded[1].Field("sha256"), HashText(HashOfNumber(1)));
  EXPECT_EQ(loaded[1].Field("from"), "worker");
  EXPECT_EQ(closed[0].Field("modules_repeated"), "4999");
  EXPECT_EQ(closed[0].Field("modules_left_out"), "");
}

TEST_F(SessionAuditTest, WhatLookedLikeNeighboursAddressesIsSaidAtTheEnd) {
  control_loop.AssertOnLoop();
  for (const uint64_t count : {0, 12}) {
    SessionAudit session(audit_.get(), 7, "peer");
    session.Opened({});
    session.Closed("client closed", 3, count);
  }
  const auto closed = Lines("session.closed");
  ASSERT_EQ(closed.size(), 2u);
  EXPECT_EQ(closed[0].Field("neighbour_pointers"), "");
  EXPECT_EQ(closed[1].Field("neighbour_pointers"), "12");
}

TEST_F(SessionAuditTest, OfATokenOnlyAHashIsRecordedTheSameOnBothSides) {
  control_loop.AssertOnLoop();
  const std::string token = "0123456789abcdef";
  SessionAudit first(audit_.get(), 1, "peer");
  SessionAudit second(audit_.get(), 2, "peer");
  first.Shared(audit::Event::kMemoryShared, token, 4096, "GPU-1");
  second.Shared(audit::Event::kMemoryOpened, token, 4096, "GPU-1");
  const auto shared = Lines("memory.shared");
  const auto opened = Lines("memory.opened");
  ASSERT_EQ(shared.size(), 1u);
  ASSERT_EQ(opened.size(), 1u);
  EXPECT_NE(shared[0].Field("offer"), "");
  EXPECT_NE(shared[0].Field("offer"), token);
  EXPECT_EQ(shared[0].Field("offer"), opened[0].Field("offer"));
}

TEST_F(SessionAuditTest, ARevocationIsRecordedOnceAndAnImageWithoutAHashWithItsReason) {
  control_loop.AssertOnLoop();
  SessionAudit session(audit_.get(), 7, "peer");
  for (int i = 0; i < 3; ++i) session.Revoked("an operator's");
  session.ModuleLoaded(absl::InvalidArgumentError("too large"), 5, "client");
  const auto loaded = Lines("module.loaded");
  ASSERT_EQ(loaded.size(), 1u);
  EXPECT_EQ(loaded[0].Field("sha256"), "");
  EXPECT_EQ(loaded[0].Field("reason"), "too large");
  EXPECT_EQ(Lines("lease.revoked").size(), 1u);
}

TEST_F(SessionAuditTest, WithoutARecordNothingHappens) {
  control_loop.AssertOnLoop();
  SessionAudit session(nullptr, 7, "peer");
  session.Opened({});
  session.Refused("why");
  session.Faulted("why");
  session.Revoked("why");
  session.Worker(audit::Event::kWorkerDied, "why", 5);
  session.ModuleLoaded(ContentHash{}, 5, "client");
  session.Shared(audit::Event::kMemoryShared, "token", 1, "GPU-1");
  session.Closed("why", 0, 0);
  EXPECT_TRUE(Lines("session.opened").empty());
}

}  // namespace
}  // namespace warpline::server
