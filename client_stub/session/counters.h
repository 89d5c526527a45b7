// The counters of a session. WARPLINE_STAT=1 prints them when the application ends.
#ifndef WARPLINE_CLIENT_STUB_SESSION_COUNTERS_H_
#define WARPLINE_CLIENT_STUB_SESSION_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/commands.h"

namespace warpline::stub {

// Thread-safe: the counters are relaxed atomics, and exact when read after the threads that counted
// were joined.
struct Counters {
  std::atomic<uint64_t> commands{0};  // one-way commands and round trips sent
  std::array<std::atomic<uint64_t>, kCommandCount + 1> by_command{};  // by CommandId
  std::atomic<uint64_t> launches{0};
  // Replies that a thread of the application waited for, except in a synchronize or a copy out; and
  // the same numbers by command. The session's opening and memory requests are counted apart.
  std::atomic<uint64_t> round_trips{0};
  std::array<std::atomic<uint64_t>, kCommandCount + 1> round_trips_by_command{};
  std::atomic<uint64_t> open_round_trips{0};
  std::atomic<uint64_t> memory_round_trips{0};
  std::atomic<uint64_t> memory_refusals{0};  // by the server, or for want of quota
  std::atomic<uint64_t> synchronizes{0};
  std::atomic<uint64_t> board_waits{0};  // of these and the copies out: ended by the worker's board
  std::atomic<uint64_t> copies_out{0};
  // Other waits: for the window, for credit, and for freed memory to retire.
  std::atomic<uint64_t> window_waits{0};
  std::atomic<uint64_t> free_waits{0};
  std::atomic<uint64_t> bytes_sent{0};
  std::atomic<uint64_t> bytes_received{0};
  std::atomic<uint64_t> bulk_bytes{0};  // through bulk connections, in both directions
  std::atomic<uint64_t> frames_sent{0};
  std::atomic<uint64_t> frames_received{0};
  std::atomic<uint64_t> resumes{0};    // after a lost connection
  std::atomic<uint64_t> transfers{0};  // to another connection while there was one
  std::atomic<uint64_t> frames_again{0};
  std::atomic<uint64_t> allocated_bytes{0};  // sum over all allocations, freed or not

  // One line per number, each "warpline stat: KEY: VALUE\n" with a decimal VALUE, in a fixed order;
  // later versions may add keys, never rename one. The keys:
  //   round trips, opening, memory requests, memory refused, synchronizes, copies out, waits on the
  //   board, launches, commands, window waits, free waits, bytes sent, bytes received, bulk bytes,
  //   frames sent, frames received, allocated bytes, resumes, transfers, frames sent again
  // Behind the value may stand a note in parentheses: "round trips: 3 (KernelFind 2, GlobalFind
  // 1)", with names of proto/calls.toml, "memory requests: 1 (waited)", and "transfers: 1 (now
  // shm)" with the name of the transport, if it is given.
  std::string ToText(std::string_view transport = {}) const;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_COUNTERS_H_
