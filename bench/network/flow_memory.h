// The connections that a router with NAT knows, and forgets when they are idle.
#ifndef WARPLINE_BENCH_NETWORK_FLOW_MEMORY_H_
#define WARPLINE_BENCH_NETWORK_FLOW_MEMORY_H_

#include <chrono>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "bench/network/packet.h"
#include "bench/network/packet_line.h"
#include "common/mutex.h"

namespace warpline {

// Thread-safe: the two directions of a link share it.
class FlowMemory {
 public:
  // Forgets connections without a packet for `idle`.
  explicit FlowMemory(std::chrono::nanoseconds idle) : idle_(idle) {}

  // Returns whether a segment passes. It does if it opens a connection, or belongs to one that is
  // known; the connection then counts as used at `now`.
  bool Passes(const TcpSegment& segment, LinkTime now);

  // Forgets all connections at once, like a router that was started again.
  void Forget();

  // From now on, connections without a packet for `idle` are forgotten.
  void SetIdle(std::chrono::nanoseconds idle);

 private:
  Mutex mu_;
  std::chrono::nanoseconds idle_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, LinkTime> used_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline

#endif  // WARPLINE_BENCH_NETWORK_FLOW_MEMORY_H_
