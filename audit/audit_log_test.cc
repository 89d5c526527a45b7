#include "audit/audit_log.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "audit/audited_method.h"
#include "audit/chain.h"
#include "audit/files.h"
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
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (anchored_.load() < 2 && absl::Now() < deadline) {
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

// The system's own limit on the size of files stands for a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

TEST_F(AuditLogTest, AFullDiskIsSaidAndWhatWasLostCounted) {
  // Its file would be the one that does not grow.
  auto log = Open({.required = true, .max_waiting = 100});
  log->Add({.event = Event::kServerStarted});
  uint64_t taken = 1;
  {
    const FullDisk full(2000);
    for (int i = 0; i < 500; ++i) {
      taken += log->Add({.event = Event::kSessionClosed}) ? 1 : 0;
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_FALSE(log->takes());
    EXPECT_GT(log->lost(), 0u);
    EXPECT_LT(taken, 200u);
  }
  for (int i = 0; i < 1000 && !log->takes(); ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_TRUE(log->takes());
  log->Add({.event = Event::kServerStopped});
  log.reset();
  EXPECT_TRUE(Verify(dir_, anchors_.back())->faults.empty());
  EXPECT_EQ(Count("session.closed") + Sum("records"), 500u);
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

}  // namespace
}  // namespace warpline::audit
