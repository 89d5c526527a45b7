#include "server/worker/host/ring_writer.h"

#include <unistd.h>

#include "common/log/log.h"
#include "proto/frames.h"

namespace warpline::worker {

void RingFrameWriter::Write(std::string_view head, std::string_view tail) {
  while (true) {
    const absl::StatusOr<bool> done = ring_->TryWrite(kReplies, {head, tail});
    if (!done.ok()) {
      LogError("ring to the server: ", done.status().ToString());
      _exit(1);
    }
    if (*done || closed_.load(std::memory_order_acquire)) return;
    ring_->WaitWritable(absl::Milliseconds(10));
  }
}

void RingFrameWriter::Close() {
  closed_.store(true, std::memory_order_release);
  ring_->Interrupt();
}

}  // namespace warpline::worker
