// Gets what the client shares with its worker, host memory and the completion board: through a
// socket of the server's, on the same host only, over which descriptors come.
#ifndef WARPLINE_CLIENT_STUB_SESSION_MEMORY_HOST_MEMORY_LINK_H_
#define WARPLINE_CLIENT_STUB_SESSION_MEMORY_HOST_MEMORY_LINK_H_

#include <cstdint>
#include <string>
#include <utility>

#include "client_stub/session/connection/local_server.h"
#include "client_stub/session/memory_requests.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "proto/session.pb.h"

namespace warpline::stub {

// Thread-safe. Connects once, when it is first used. Memory that outlives the session does so until
// this is destroyed, which the process's end does.
class HostMemoryLink {
 public:
  // `name` is what the server says; nothing is sent to whom `server` does not take for it.
  HostMemoryLink(LocalServer server, std::string name, uint64_t session, std::string secret)
      : server_(std::move(server)),
        name_(std::move(name)),
        session_(session),
        secret_(std::move(secret)) {}

  // Waits for the server's answer. kNotSupported when the server does not listen there. `*why` gets
  // the server's words for kOutOfMemory.
  CudaResult Request(HostSharing what, uint64_t va, uint64_t bytes, UniqueFd* fd, std::string* why);
  // The completion board; invalid when it cannot be had.
  UniqueFd RequestBoard();

 private:
  // Fills in whose request it is, and waits for the answer.
  CudaResult Ask(warpline_internal::HostMemoryRequest request, UniqueFd* fd, std::string* why);
  bool Connect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const LocalServer server_;
  const std::string name_;
  const uint64_t session_;
  const std::string secret_;
  Mutex mu_;
  bool tried_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  UniqueFd socket_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_MEMORY_HOST_MEMORY_LINK_H_
