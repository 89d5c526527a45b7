// Gets what the client shares with its worker, host memory and the completion board: through a
// socket of the server's, on the same host only, over which descriptors come.
//
// A server that ends and has the session go on with the next one (server/gpu_server/saved) sends
// the descriptors of all shared memory here first. The next server listens at the same name and
// gets them from this client, so both share the same memory as before.
#ifndef WARPLINE_CLIENT_STUB_SESSION_MEMORY_HOST_MEMORY_LINK_H_
#define WARPLINE_CLIENT_STUB_SESSION_MEMORY_HOST_MEMORY_LINK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client_stub/session/connection/local_server.h"
#include "client_stub/session/memory_requests.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "proto/session.pb.h"

namespace warpline::stub {

// Thread-safe. Connects when it is first used. Memory that outlives the session does so until this
// is destroyed, which the process's end does.
class HostMemoryLink {
 public:
  struct Place {
    LocalServer server;  // Nothing is sent to a listener that this does not take for the server.
    std::string name;    // The socket's, as the server says.
    uint64_t session;
    std::string secret;
  };

  // Without a place every request is kNotSupported.
  HostMemoryLink() = default;
  explicit HostMemoryLink(Place place) : place_(std::move(place)) {}
  // Sets the place. Called at most once, before the first request.
  void Open(Place place);

  // Waits for the server's answer, also while the session is between two servers. kNotSupported
  // when no server listens there. `*why` gets the server's words for kOutOfMemory.
  CudaResult Request(HostSharing what, uint64_t va, uint64_t bytes, UniqueFd* fd, std::string* why);
  // The completion board; invalid when it cannot be had.
  UniqueFd RequestBoard();

  // Called before the session is resumed: hands what a former server shared to the one that listens
  // now. OK also where there is nothing to hand over. UNAVAILABLE while no server listens,
  // PERMISSION_DENIED when the listener is not the server, FAILED_PRECONDITION when the server does
  // not take the memory back.
  absl::Status HandOver();
  // The session goes on with no other server: requests that wait for one end with kNotSupported.
  void Lose();

 private:
  // These are called by the thread that is asking.
  absl::Status Connect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits for the answer. DEADLINE_EXCEEDED when none comes in time.
  absl::Status Exchange(int socket, const warpline_internal::HostMemoryRequest& request,
                        const std::vector<int>& fds, warpline_internal::HostMemoryAnswer* answer,
                        UniqueFd* fd) ABSL_LOCKS_EXCLUDED(mu_);
  // Fills in whose request it is, and waits for the answer.
  CudaResult Ask(warpline_internal::HostMemoryRequest request, UniqueFd* fd, std::string* why);
  // Waits for another server once the connection has ended. Returns false when none comes.
  bool AwaitAnother() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Reads what the server has sent besides answers.
  void Drain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Keep(const warpline_internal::HostMemoryAnswer& answer, std::vector<UniqueFd> fds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status HandOverKept() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BeginAsking() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndAsking() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  struct Kept {
    uint64_t bytes = 0;
    bool outlives = false;
    UniqueFd fd;
  };

  Mutex mu_;
  CondVar changed_;
  std::optional<Place> place_ ABSL_GUARDED_BY(mu_);
  bool connected_ ABSL_GUARDED_BY(mu_) = false;  // It was, at least once.
  // Answers would not belong to their requests any more.
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  bool lost_ ABSL_GUARDED_BY(mu_) = false;
  // A thread uses the socket without holding mu_; others wait for it.
  bool asking_ ABSL_GUARDED_BY(mu_) = false;
  UniqueFd socket_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Kept> kept_ ABSL_GUARDED_BY(mu_);  // By address; for the next server.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_MEMORY_HOST_MEMORY_LINK_H_
