// What waits to be sent to a process that need not take it at once.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_PACKET_BACKLOG_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_PACKET_BACKLOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

// Belongs to the control loop.
class PacketBacklog {
 public:
  using Send = std::function<absl::StatusOr<bool>(const warpline_internal::ToWorker& message,
                                                  absl::Span<const int> fds)>;
  // Of one session. It has one answer of each kind under way at most.
  static constexpr size_t kMostOfSession = 16;

  // `send` sends a packet, or returns false when there is no room for it now.
  explicit PacketBacklog(Send send) : send_(std::move(send)) {}

  // Sends the message, after all that waits; what there is no room for now waits with duplicates of
  // `fds`. RESOURCE_EXHAUSTED when too much of the session's waits already, or there are no
  // descriptors left; otherwise the errors of `send`.
  absl::Status Push(warpline_internal::ToWorker message, absl::Span<const int> fds)
      RUNS_ON(control_loop);
  // Sends what there is room for. Returns how much that was. A message that cannot be sent for want
  // of descriptors waits on; any other error is returned.
  absl::StatusOr<size_t> Flush() RUNS_ON(control_loop);
  // Drops what waits of a session. True if its OpenWorker was still among it.
  bool Drop(uint64_t session) RUNS_ON(control_loop);
  void Clear() RUNS_ON(control_loop);
  bool empty() const RUNS_ON(control_loop) { return waiting_.empty(); }

 private:
  struct Packet {
    warpline_internal::ToWorker message;
    std::vector<UniqueFd> fds;
  };

  const Send send_;
  std::deque<Packet> waiting_ ABSL_GUARDED_BY(control_loop);
  // How many wait of each session that has any.
  absl::flat_hash_map<uint64_t, size_t> of_session_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_PACKET_BACKLOG_H_
