// One bulk connection that ends in a relay, from its hello on, and the thread that serves it.
#ifndef WARPLINE_SERVER_RELAY_BULK_BULK_CONNECTION_H_
#define WARPLINE_SERVER_RELAY_BULK_BULK_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/frames.h"
#include "server/relay/bulk/relay_memory.h"
#include "transport/bulk/bulk_socket.h"

namespace warpline::relay {

class BulkConnection {
 public:
  // What is shared by connections; borrowed.
  struct Host {
    RelayMemory* memory = nullptr;
    // So many bytes were put or got. Called on the connection's thread.
    std::function<void(uint64_t bytes)> moved;
  };

  // RESOURCE_EXHAUSTED when there is no thread for it.
  static absl::StatusOr<std::unique_ptr<BulkConnection>> Start(std::unique_ptr<BulkSocket> socket,
                                                               uint32_t slot, const Host* host);
  // Ends it. Nothing is moved any more once this has returned.
  ~BulkConnection();

 private:
  BulkConnection(std::unique_ptr<BulkSocket> socket, uint32_t slot, const Host* host)
      : socket_(std::move(socket)), slot_(slot), host_(host) {}

  void Run();
  // Takes a frame whose header has come, and answers it; not OK ends the connection.
  absl::Status OnFrame(const BulkFrameHeader& frame);
  absl::Status OnMemory(uint32_t bytes);
  absl::Status OnPut(uint32_t bytes);
  absl::Status OnGet(uint32_t bytes);

  const std::unique_ptr<BulkSocket> socket_;
  const uint32_t slot_;
  const Host* const host_;
  std::atomic<bool> ended_{false};
  uint64_t puts_ = 0;  // The thread's.
  std::thread thread_;
};

}  // namespace warpline::relay

#endif  // WARPLINE_SERVER_RELAY_BULK_BULK_CONNECTION_H_
