// A bulk link over TCP, with TLS or in plain text, to the session's relay. The threads that copy
// send and receive themselves, straight from and into the application's memory.
#ifndef WARPLINE_CLIENT_STUB_SESSION_BULK_SOCKET_BULK_LINK_H_
#define WARPLINE_CLIENT_STUB_SESSION_BULK_SOCKET_BULK_LINK_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client_stub/session/bulk/bulk_link.h"
#include "client_stub/session/bulk/bulk_tickets.h"
#include "client_stub/session/bulk/relay_target.h"
#include "client_stub/session/bulk_memory.h"
#include "common/mutex.h"
#include "proto/frames.h"
#include "transport/bulk/bulk_socket.h"

namespace warpline::stub {

class SocketBulkLink final : public BulkLink {
 public:
  // The slot's memory lies at `va`. `target` is borrowed.
  SocketBulkLink(uint32_t slot, uint64_t va, RelayTarget* target)
      : slot_(slot), va_(va), target_(target) {}
  ~SocketBulkLink() override { Disconnect(); }

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
    uint64_t number;
  };
  // What a put or a get needs of the connection.
  struct Turn {
    std::shared_ptr<BulkSocket> socket;  // Null for none.
    BulkTicket ticket;
  };

  // Gets the slot's memory.
  absl::Status AskForMemory(BulkSocket* socket);

  // Begins a put, or a get where `to` is not null.
  Turn Begin(void* to, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(sending_);
  // The same, and sends its frame: the header, and what is put.
  BulkTicket Send(uint32_t kind, const BulkHeader& header, std::string_view from, void* to);
  // Receives one frame if there is a connection; not OK when it is lost with that.
  absl::Status ReceiveOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(receiving_);
  absl::Status OnTaken(BulkSocket* socket, uint32_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(receiving_);
  absl::Status OnBytes(BulkSocket* socket, uint32_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(receiving_);
  // The same on this connection, if nobody else receives and something is there. Returns whether it
  // did.
  bool TryReceive(BulkSocket* socket);
  // The connection of `socket` is over, if it is still the one.
  void Lose(const BulkSocket* socket);
  bool IsDone(const BulkTicket& ticket) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint32_t slot_;
  const uint64_t va_;
  RelayTarget* const target_;

  // Held while a frame is sent, and while one is received. Both before mu_; a sender may take the
  // second, if nobody has it.
  Mutex sending_;
  Mutex receiving_;
  Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<BulkSocket> connecting_ ABSL_GUARDED_BY(mu_);  // Connect()'s.
  std::shared_ptr<BulkSocket> socket_ ABSL_GUARDED_BY(mu_);      // Null while there is none.
  BulkTickets tickets_ ABSL_GUARDED_BY(mu_);
  std::deque<Target> gets_ ABSL_GUARDED_BY(mu_);  // That are not done.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_BULK_SOCKET_BULK_LINK_H_
