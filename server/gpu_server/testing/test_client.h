// A client for tests of sessions: queues frames to send and waits for what comes back.
#ifndef WARPLINE_SERVER_GPU_SERVER_TESTING_TEST_CLIENT_H_
#define WARPLINE_SERVER_GPU_SERVER_TESTING_TEST_CLIENT_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "transport/channel.h"

namespace warpline::server {

// Thread-safe.
class TestClient : public ChannelHandler {
 public:
  // To be called once, with the channel that was opened with this handler.
  void Connected(std::unique_ptr<Channel> channel);
  // Closes the channel.
  ~TestClient() override { Disconnect(); }
  // Leaves without a word.
  void Disconnect();

  void Send(uint32_t kind, std::string payload);
  template <typename Message>
  void SendMessage(FrameKind kind, const Message& message) {
    Send(kind, message.SerializeAsString());
  }
  // A kCommands frame of `count` commands starting with the next number.
  void SendCommands(const std::string& body, uint32_t count = 1);

  // The next frame of `kind`; others are counted and dropped. Nothing when the channel closed.
  std::optional<std::string> Await(uint32_t kind);
  // The next frame of each of the kinds, in whatever order they come. Fewer when the channel
  // closed.
  std::map<uint32_t, std::string> AwaitEach(std::set<uint32_t> kinds);
  // Waits for the end of the stream.
  absl::Status AwaitClosed();
  // The last number acknowledged by kReceived frames that were seen.
  void AwaitReceived(uint64_t seq);

  // Where no library, stack, or shadow memory of a sanitizer lies.
  static constexpr uint64_t kArena = 0x7e9000000000;
  // A hello that any server takes, with an arena of 4 GiB at kArena.
  static warpline_internal::Hello GoodHello();
  // Says hello and returns the welcome; nothing when refused.
  std::optional<warpline_internal::Welcome> Open(
      const warpline_internal::Hello& hello = GoodHello());
  // Resumes a session of another client, which has handled so many counted frames; returns what the
  // server has, or nothing when refused.
  std::optional<ResumedBody> Resume(const warpline_internal::Welcome& welcome, uint64_t attempt,
                                    uint64_t received);
  std::optional<warpline_internal::MemoryGrant> RequestMemory(uint64_t va, uint64_t min_bytes,
                                                              uint64_t want_bytes);

  // ChannelHandler.
  bool NextFrame(Frame* frame) override;
  Accept OnFrame(Frame* frame) override;
  void OnClosed(const absl::Status& status) override;

 private:
  std::unique_ptr<Channel> channel_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Frame> to_send_ ABSL_GUARDED_BY(mu_);
  std::deque<Frame> received_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mu_);
  uint64_t received_seq_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t next_seq_ = 1;
  uint32_t acked_ = 0;  // What commands say of it: what Resume() said.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_TESTING_TEST_CLIENT_H_
