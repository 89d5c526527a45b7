// A worker's session over a FakeContext, which a test feeds.
#ifndef WARPLINE_SERVER_WORKER_TESTING_SESSION_FIXTURE_H_
#define WARPLINE_SERVER_WORKER_TESTING_SESSION_FIXTURE_H_

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "proto/frames.h"
#include "server/worker/session/hosted_session.h"
#include "server/worker/testing/fake_context.h"

namespace warpline::worker {

// Collects replies and lets a test wait for one.
class Replies : public FrameWriter {
 public:
  struct Entry {
    ReplyId id;
    uint64_t seq;
    std::string body;
  };

  void Write(std::string_view head, std::string_view tail) override {
    const std::string frame = std::string(head) + std::string(tail);
    ReplyReader reader(frame);
    MutexLock lock(&mu_);
    largest_frame_ = std::max(largest_frame_, tail.empty() ? frame.size() : 0);
    while (!reader.Done()) {
      const auto view = reader.Next();
      ASSERT_TRUE(view.ok()) << view.status();
      entries_.push_back({view->id, view->seq, std::string(view->body)});
    }
    arrived_.NotifyAll();
  }

  // Forgets what has arrived, for a session that counts from the beginning again.
  void Clear() {
    MutexLock lock(&mu_);
    entries_.clear();
  }

  // Waits for the reply to `seq` and returns its body; fails the test after ten seconds.
  std::string Wait(uint64_t seq, CudaResult* result = nullptr) {
    const Entry entry =
        WaitFor([&](const Entry& e) { return e.id == ReplyId::kReply && e.seq == seq; });
    std::string_view body = entry.body;
    ReplyBody head{};
    EXPECT_TRUE(TakeStruct(&body, &head));
    if (result != nullptr) *result = static_cast<CudaResult>(head.result);
    return std::string(body);
  }

  template <typename Predicate>
  Entry WaitFor(const Predicate& wanted) {
    MutexLock lock(&mu_);
    for (int i = 0; i < 1000; ++i) {
      const auto it = std::find_if(entries_.begin(), entries_.end(), wanted);
      if (it != entries_.end()) return *it;
      arrived_.WaitWithTimeout(&mu_, absl::Milliseconds(10));
    }
    ADD_FAILURE() << "no such reply";
    return {};
  }

  bool Has(ReplyId id, uint64_t seq) {
    MutexLock lock(&mu_);
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const Entry& e) { return e.id == id && e.seq == seq; });
  }

  // The size of the largest frame of collected replies; data is sent by itself and does not count.
  size_t largest_frame() {
    MutexLock lock(&mu_);
    return largest_frame_;
  }

  std::vector<Entry> All() {
    MutexLock lock(&mu_);
    return entries_;
  }

 private:
  Mutex mu_;
  CondVar arrived_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mu_);
  size_t largest_frame_ ABSL_GUARDED_BY(mu_) = 0;
};

class SessionTest : public ::testing::Test {
 protected:
  template <typename Command>
  uint64_t Add(const Command& command, const std::string& tail = "") {
    std::memcpy(AppendCommand(command, tail.size(), &commands_), tail.data(), tail.size());
    ++count_;
    return next_seq_++;
  }

  absl::Status Send() {
    const CommandsHeader header = {next_seq_ - count_, count_, 0};
    std::string payload(reinterpret_cast<const char*>(&header), sizeof(header));
    payload += commands_;
    commands_.clear();
    count_ = 0;
    return session_->Decode(std::move(payload));
  }

  // The options that a session is opened with; derived classes set more of them and then call
  // Restart().
  HostedSession::Options OptionsOf(const SessionLimits& limits = {}) {
    HostedSession::Options options;
    options.devices = {{&context_}};
    options.limits = limits;
    options.writer = &replies_;
    return options;
  }

  static std::unique_ptr<HostedSession> Open(HostedSession::Options options) {
    auto session = HostedSession::Create(std::move(options));
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  // Starts over with other options.
  void Restart(HostedSession::Options options) {
    session_.reset();
    session_ = Open(std::move(options));
    next_seq_ = 1;
  }
  void Restart(const SessionLimits& limits) { Restart(OptionsOf(limits)); }

  uint64_t AddStream(uint64_t handle, uint32_t flags = 1) {
    return Add(cmd::StreamCreate{handle, flags, 0});
  }

  void LoadKernel() {
    Add(cmd::ImageData{1, 5, 0}, "image");
    Add(cmd::ModuleLoad{2, 1});
    const uint64_t found = Add(cmd::KernelFind{3, 2}, "kernel");
    ASSERT_TRUE(Send().ok());
    replies_.Wait(found);
  }

  cmd::Launch LaunchOn(uint64_t stream, uint32_t grid = 1) {
    cmd::Launch launch;
    launch.stream = stream;
    launch.kernel = 3;
    launch.grid_x = grid;
    return launch;
  }

  const std::string params_ = std::string(12, 'p');
  FakeContext context_;
  Replies replies_;
  std::unique_ptr<HostedSession> session_ = Open(OptionsOf());
  std::string commands_;
  uint32_t count_ = 0;
  uint64_t next_seq_ = 1;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_TESTING_SESSION_FIXTURE_H_
