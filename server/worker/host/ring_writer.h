// The FrameWriter of a real worker: the ring to its server.
#ifndef WARPLINE_SERVER_WORKER_HOST_RING_WRITER_H_
#define WARPLINE_SERVER_WORKER_HOST_RING_WRITER_H_

#include <memory>
#include <utility>

#include "server/worker/replies/reply_sink.h"
#include "transport/shm_ring.h"

namespace warpline::worker {

// Thread-compatible; ReplySink calls it under its lock.
class RingFrameWriter : public FrameWriter {
 public:
  explicit RingFrameWriter(std::unique_ptr<RingWriter> ring) : ring_(std::move(ring)) {}

  // Waits while the ring is full, so that a client that does not read holds back its own lanes. A
  // server that garbles the ring ends the process.
  void Write(std::string_view head, std::string_view tail) override;

 private:
  const std::unique_ptr<RingWriter> ring_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_RING_WRITER_H_
