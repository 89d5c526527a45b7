// The client's end of the bulk connection in one slot: one connection after another.
//
//   ChannelBulkLink  over a channel, to the server: gRPC with TLS, through whatever lies between.
//   SocketBulkLink   over TCP, to the session's relay.
#ifndef WARPLINE_CLIENT_STUB_SESSION_BULK_BULK_LINK_H_
#define WARPLINE_CLIENT_STUB_SESSION_BULK_BULK_LINK_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client_stub/session/bulk_memory.h"

namespace warpline::stub {

// Connect() and Disconnect() are called by one thread; the rest is thread-safe.
class BulkLink {
 public:
  virtual ~BulkLink() = default;

  // Connects, ending what is left of a former connection, and sees to it that the slot has its
  // memory. Blocks. RESOURCE_EXHAUSTED when the server has no memory for it: it should not be asked
  // again.
  virtual absl::Status Connect(absl::Duration deadline) = 0;
  // Ends the connection. What is under way is lost.
  virtual void Disconnect() = 0;
  // Has Connect() give up, now or when it is called.
  virtual void Stop() = 0;

  bool up() const { return up_.load(std::memory_order_acquire); }

  // As in BulkMemory.
  virtual uint64_t connection() = 0;
  virtual BulkTicket Put(uint64_t va, std::string_view from) = 0;
  virtual BulkTicket Get(uint64_t va, void* to, uint64_t bytes) = 0;
  virtual bool Await(const BulkTicket& ticket) = 0;

 protected:
  std::atomic<bool> up_{false};
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_BULK_BULK_LINK_H_
