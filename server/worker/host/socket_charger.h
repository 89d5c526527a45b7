// Asks the server for device memory outside the arena, over the worker's control socket.
#ifndef WARPLINE_SERVER_WORKER_HOST_SOCKET_CHARGER_H_
#define WARPLINE_SERVER_WORKER_HOST_SOCKET_CHARGER_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "proto/worker.pb.h"
#include "server/worker/executors/executor_host.h"

namespace warpline::worker {

// Thread-safe. OnCharged() is called by the thread that receives, which must not call Charge().
class SocketCharger : public MemoryCharger {
 public:
  // Serves the session of this number in the server. `fd` is borrowed.
  SocketCharger(int fd, uint64_t session) : fd_(fd), session_(session) {}

  CudaResult Charge(uint32_t device, uint64_t bytes) override;
  void Uncharge(uint32_t device, uint64_t bytes) override;

  void OnCharged(const warpline_internal::MemoryCharged& charged);
  // The session is over: nothing is asked for any more, and who waits for an answer gets
  // kOutOfMemory. What the session was charged for ends with it.
  void Close();

 private:
  const int fd_;
  const uint64_t session_;
  Mutex asking_mu_;  // Held while an answer is awaited, so that there is one question at a time.
                     // Acquired before mu_.
  Mutex mu_;
  CondVar answered_;
  uint64_t last_asked_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_answered_ ABSL_GUARDED_BY(mu_) = 0;
  int error_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_SOCKET_CHARGER_H_
