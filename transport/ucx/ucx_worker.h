// What UCX has of one connection: a worker, which listens and makes progress when it is asked to,
// and the endpoint to the other side's worker. Private to transport/ucx.
#ifndef WARPLINE_TRANSPORT_UCX_UCX_WORKER_H_
#define WARPLINE_TRANSPORT_UCX_UCX_WORKER_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"
#include "transport/ucx/ucx_library.h"
#include "transport/ucx/ucx_transports.h"

namespace warpline::ucx_internal {

// Starts every message. `token` is what both sides know and nobody else does: whoever reaches the
// port of a worker may send it messages.
struct MessageHeader {
  uint64_t token[2];
  uint32_t what;
  uint32_t kind;
  uint64_t taken;
};
static_assert(sizeof(MessageHeader) == 32);

// Called while the worker makes progress.
class UcxWorkerEvents {
 public:
  virtual ~UcxWorkerEvents() = default;
  // A message whose header has the right size; nothing else is known of it.
  virtual void OnMessage(const MessageHeader& header, std::string_view payload)
      RUNS_ON(channel_loop) = 0;
  // There is no connection any more.
  virtual void OnLost(const absl::Status& why) RUNS_ON(channel_loop) = 0;
};

// Used by one thread at a time, but for fd(), which is any thread's.
class UcxWorker {
 public:
  struct Options {
    std::string device;      // The network interface.
    std::string ip;          // This host's address there.
    std::string port_range;  // Where it listens: "14600-14999"; empty for any port.
    UcxTransports transports = {};
  };
  // UNAVAILABLE, naming it, where the UCX that is loaded lacks one of the transports, or this host
  // a device for it.
  static absl::Status CheckTransports(const UcxTransports& transports);

  // `events` is borrowed. UNAVAILABLE where UCX is not to be had, or not on this device.
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Create(const Options& options,
                                                           UcxWorkerEvents* events);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  // By which others connect to it.
  const std::string& address() const { return address_; }

  // From now on nobody new can connect to it over TCP; who has connected stays. Over RDMA nothing
  // keeps those away who reach its network.
  absl::Status CloseDoor();

  // Makes the endpoint, once. Nothing is sent before something is. The address is taken as it is:
  // only of somebody who is trusted not to end this process.
  absl::Status Connect(const std::string& address) RUNS_ON(channel_loop);
  bool connected() const RUNS_ON(channel_loop) { return endpoint_ != nullptr; }
  // Ends the connection without a word.
  void Disconnect() RUNS_ON(channel_loop);

  // Sends a message on the endpoint that there is.
  void Send(const MessageHeader& header, Frame payload) RUNS_ON(channel_loop);
  // Messages that are on their way.
  size_t unsent() const RUNS_ON(channel_loop) { return sends_.size(); }

  // Returns whether anything happened.
  bool Progress() RUNS_ON(channel_loop);
  // From now on fd() becomes readable when there is something to do. False when there is already.
  // Only when the last Progress() found nothing: UCX looks after what it has begun before it says
  // of anything else.
  bool Arm() RUNS_ON(channel_loop);
  int fd() const { return fd_; }

 private:
  // Where UCX reads from until the request is done.
  struct Sending {
    MessageHeader header;
    Frame payload;
    void* request = nullptr;
  };

  UcxWorker(const UcxLibrary* ucx, UcxWorkerEvents* events) : ucx_(ucx), events_(events) {}
  // Lets `call` ask UCX for something (UcxLibrary::Guard). Returns false, and tells of the loss
  // once, when UCX has given up: nothing is asked of it then.
  template <typename Call>
  bool Ask(Call call) RUNS_ON(channel_loop);
  absl::Status Open(const Options& options);
  absl::Status OpenDoor(const Options& options);
  static ucs_status_t OnActiveMessage(void* self, const void* header, size_t header_bytes,
                                      void* data, size_t bytes, const ucp_am_recv_param_t* how);
  static void OnError(void* self, ucp_ep_h endpoint, ucs_status_t status);

  const UcxLibrary* const ucx_;
  UcxWorkerEvents* const events_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int fd_ = -1;
  bool gave_up_ ABSL_GUARDED_BY(channel_loop) = false;
  std::string address_;
  // UCX tells when the other end is gone.
  bool tells_losses_ = true;
  int listener_ = -1;                   // UCX's; -1 where it does not listen over TCP.
  std::vector<int> listener_watchers_;  // The epoll instances that watch it.
  ucp_ep_h endpoint_ ABSL_GUARDED_BY(channel_loop) = nullptr;
  std::deque<Sending> sends_ ABSL_GUARDED_BY(channel_loop);
};

}  // namespace warpline::ucx_internal

#endif  // WARPLINE_TRANSPORT_UCX_UCX_WORKER_H_
