// The FrameWriter of a real worker: the ring to its server.
#ifndef WARPLINE_SERVER_WORKER_HOST_RING_WRITER_H_
#define WARPLINE_SERVER_WORKER_HOST_RING_WRITER_H_

#include <atomic>
#include <memory>
#include <utility>

#include "server/worker/replies/reply_sink.h"
#include "transport/shm_ring.h"

namespace warpline::worker {

// Thread-compatible, but for Close(); ReplySink calls it under its lock.
class RingFrameWriter : public FrameWriter {
 public:
  explicit RingFrameWriter(std::unique_ptr<RingWriter> ring) : ring_(std::move(ring)) {}

  // Waits while the ring is full, so that a client that does not read holds back its own executors.
  // A server that garbles the ring ends the process.
  void Write(std::string_view head, std::string_view tail) override;
  // From now on frames that do not fit are dropped, also by who waits in Write(): the session is
  // over. Any thread may call it.
  void Close();

 private:
  const std::unique_ptr<RingWriter> ring_;
  std::atomic<bool> closed_{false};
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_RING_WRITER_H_
