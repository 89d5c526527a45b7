// A fake server's way to its client.
#ifndef WARPLINE_CLIENT_STUB_SESSION_TESTING_CLIENT_LINK_H_
#define WARPLINE_CLIENT_STUB_SESSION_TESTING_CLIENT_LINK_H_

#include "absl/status/status.h"
#include "transport/channel.h"

namespace warpline::stub {

// Thread-safe.
class ClientLink {
 public:
  virtual ~ClientLink() = default;
  // Queues a frame for the client.
  virtual void ToClient(Frame frame) = 0;
  // Ends the stream after the frames that were queued.
  virtual void ServerClose(const absl::Status& status) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_TESTING_CLIENT_LINK_H_
