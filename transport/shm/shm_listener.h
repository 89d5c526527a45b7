// Takes connections through shared memory: an abstract unix socket, over which each gets its rings.
//
// Anybody on the host may connect. What a connection costs is bounded before it has shown that it
// may be there, as everywhere (common/serving/stranger_book.h), and the peer's user is known.
#ifndef WARPLINE_TRANSPORT_SHM_SHM_LISTENER_H_
#define WARPLINE_TRANSPORT_SHM_SHM_LISTENER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/serving/stranger_book.h"
#include "common/unique_fd.h"
#include "transport/listener.h"

namespace warpline::shm_internal {

class ShmListener : public Listener {
 public:
  explicit ShmListener(ListenerOptions options);
  ~ShmListener() override;

  absl::Status Start(const std::vector<std::string>& addresses, Acceptor* acceptor) override;
  std::vector<std::string> addresses() const override { return addresses_; }
  // Nobody is told of it here.
  void SetServing(bool) override {}
  int sessions() const override { return Running(); }
  void Shutdown(absl::Duration deadline) override { End(deadline); }

 private:
  class Session;

  int Running() const;
  void End(absl::Duration deadline);
  // The body of the accepting thread.
  void Accept();
  void TakeConnection(UniqueFd socket);
  // Sends strangers away until there are no more than there may be.
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Called by sessions, on any thread.
  void OnAdmitted(uint64_t id);
  void OnOver();
  // Destroys the sessions that are over.
  void Reap();
  void Ring();

  const ListenerOptions options_;
  std::vector<std::string> addresses_;  // Constant once it has started, as are
  std::vector<UniqueFd> sockets_;       // these, until Shutdown().
  Acceptor* acceptor_ = nullptr;
  UniqueFd bell_;  // An eventfd: look at stopping_ and for sessions that are over.
  std::thread thread_;

  mutable Mutex mu_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, std::unique_ptr<Session>> sessions_ ABSL_GUARDED_BY(mu_);
  StrangerBook strangers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::shm_internal

#endif  // WARPLINE_TRANSPORT_SHM_SHM_LISTENER_H_
