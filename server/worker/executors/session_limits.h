// What a session may have in its worker. The server's flags and the lease of its tenant set some of
// it.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_SESSION_LIMITS_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_SESSION_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace warpline::worker {

struct SessionLimits {
  uint64_t max_handles = 1 << 20;  // Of all kinds together.
  uint64_t max_streams = 1024;     // Each has a thread.
  // A new stream waits at most so long for the thread of one that is destroyed and has no work
  // left.
  absl::Duration stream_end_wait = absl::Seconds(1);
  uint64_t max_module_bytes = 4ull << 30;
  uint64_t max_graph_nodes = 1u << 20;       // Of all graphs together.
  uint64_t max_queued_bytes = 256ull << 20;  // Payloads that are not executed yet.
  // Commands that are not complete yet; a client keeps to its window, which is smaller.
  uint64_t max_queued_commands = 256u << 10;
  size_t max_watches = 4096;  // Waits for all streams at once.
  size_t staging_buffers = 16;
  // Those included that an executor gets beyond that because it has none; a session that shares its
  // device with others has its part of the staging memory and no more.
  size_t most_staging_buffers = ~size_t{0};
  // The bounds of CU_LIMIT_PRINTF_FIFO_SIZE and CU_LIMIT_MALLOC_HEAP_SIZE: the device takes their
  // memory beside what the session is charged for.
  uint64_t max_printf_bytes = 64u << 20;
  uint64_t max_heap_bytes = 1ull << 30;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_SESSION_LIMITS_H_
