// A bulk link over a channel, as sessions have them.
#ifndef WARPLINE_CLIENT_STUB_SESSION_BULK_CHANNEL_BULK_LINK_H_
#define WARPLINE_CLIENT_STUB_SESSION_BULK_CHANNEL_BULK_LINK_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client_stub/session/bulk/bulk_link.h"
#include "client_stub/session/bulk/bulk_tickets.h"
#include "client_stub/session/bulk/put_buffers.h"
#include "client_stub/session/bulk_memory.h"
#include "client_stub/session/connection/dialer.h"
#include "common/mutex.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

// Whose bulk connections they are.
struct BulkIdentity {
  uint64_t session = 0;
  std::string secret;
};

class ChannelBulkLink final : public BulkLink, private ChannelHandler {
 public:
  // The slot's memory lies at `va`. `dialer` is called by the thread that connects.
  ChannelBulkLink(uint32_t slot, uint64_t va, DialTarget target, Dialer dialer,
                  BulkIdentity identity);
  ~ChannelBulkLink() override { Disconnect(); }

  absl::Status Connect(absl::Duration deadline) override;
  void Disconnect() override;
  void Stop() override;
  uint64_t connection() override;
  BulkTicket Put(uint64_t va, std::string_view from) override;
  BulkTicket Get(uint64_t va, void* to, uint64_t bytes) override;
  bool Await(const BulkTicket& ticket) override;

 private:
  struct Target {
    void* to;
    uint64_t bytes;
    // Empty until they are here. Who awaits them copies them, not the loop: it has the next to
    // receive.
    std::string received = {};
  };

  // ChannelHandler.
  bool NextFrame(Frame* frame) override RUNS_ON(channel_loop);
  Accept OnFrame(Frame* frame) override RUNS_ON(channel_loop);
  void OnClosed(const absl::Status& status) override RUNS_ON(channel_loop);

  // What the server sent; not OK for what a correct one does not send.
  absl::Status Take(Frame* frame) RUNS_ON(channel_loop);
  absl::Status TakeBytes(std::string* bytes) RUNS_ON(channel_loop);

  void Push(Frame frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status AwaitReady(absl::Time deadline);
  absl::Status AskForMemory(absl::Time deadline);
  // Whether the connection of the ticket is lost, or what it stands for is here or done.
  bool IsOver(const BulkTicket& ticket) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint32_t slot_;
  const uint64_t va_;
  const DialTarget target_;
  const Dialer dialer_;
  const BulkIdentity identity_;
  const std::shared_ptr<PutBuffers> buffers_ = std::make_shared<PutBuffers>();
  std::unique_ptr<Channel> channel_;     // Connect()'s.
  std::atomic<bool> has_frames_{false};  // To be asked all the time.

  Mutex mu_;  // Before the channel's own.
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  Channel* live_ ABSL_GUARDED_BY(mu_) = nullptr;  // To wake.
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status why_ ABSL_GUARDED_BY(mu_);
  bool ready_ ABSL_GUARDED_BY(mu_) = false;
  bool has_memory_ ABSL_GUARDED_BY(mu_) = false;
  bool memory_answered_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status memory_refused_ ABSL_GUARDED_BY(mu_);
  std::deque<Frame> frames_ ABSL_GUARDED_BY(mu_);
  BulkTickets tickets_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Target> gets_ ABSL_GUARDED_BY(mu_);  // By their numbers, until copied.
  uint64_t got_ ABSL_GUARDED_BY(mu_) = 0;                 // The number of the last that is here.
  std::vector<std::string> spare_ ABSL_GUARDED_BY(mu_);   // Memory for what comes.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_BULK_CHANNEL_BULK_LINK_H_
