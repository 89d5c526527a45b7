// Host memory that a session's client shares with its worker: sealed files in memory that the
// server makes, so that neither of the two can take memory away under the other.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_HOST_SEGMENTS_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_HOST_SEGMENTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/cuda/cuda_result.h"
#include "common/unique_fd.h"
#include "memory/quota.h"
#include "proto/session.pb.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/workers/worker_link.h"
#include "server/gpu_server/memory/kept_segments.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

class HostSegments {
 public:
  struct Result {
    CudaResult result = CudaResult::kSuccess;
    int fd = -1;      // Borrowed; -1 unless the result is kSuccess.
    std::string why;  // In words, for kOutOfMemory.
  };
  using Answer = std::function<void(const Result& result)>;

  static constexpr size_t kMostSegments = 4096;
  // Of these, so many may outlive the session.
  static constexpr size_t kMostOutliving = 32;

  // `quota` counts the memory of all sessions. `worker` is borrowed.
  HostSegments(std::shared_ptr<Quota> quota, WorkerLink* worker)
      : quota_(std::move(quota)), worker_(worker) {}

  // The tenant's part of the quota, which its sessions share. Called before the first request.
  void SetTenantQuota(std::shared_ptr<Quota> quota) RUNS_ON(control_loop) {
    tenant_quota_ = std::move(quota);
  }

  // Answered once the worker has the segment, or has it no longer. kInvalidValue for a range that
  // is none or overlaps another, kOutOfMemory beyond the quota or the tenant's part of it. What is
  // given back is emptied: its client may keep it mapped, and what it puts there then is its own.
  void Request(const warpline_internal::HostMemoryRequest& request, Answer answer)
      RUNS_ON(control_loop);
  // The session had such a segment on another server, with this content: the next worker maps it.
  // INVALID_ARGUMENT and RESOURCE_EXHAUSTED where Request() answers kInvalidValue and kOutOfMemory,
  // and INVALID_ARGUMENT for memory that is not sealed at this size. Only while suspended.
  absl::Status Adopt(uint64_t va, uint64_t bytes, bool outlives, UniqueFd memory)
      RUNS_ON(control_loop);
  // A segment that the session's client has, too.
  struct Shared {
    uint64_t va = 0;
    uint64_t bytes = 0;
    bool outlives = false;
    int fd = -1;  // Borrowed.
  };
  // Returns the segments that were answered with, by address.
  std::vector<Shared> Show() const RUNS_ON(control_loop);
  // Another server goes on with the segments, or does not after all. While it does, what waits is
  // not answered, and End() leaves all memory as it is.
  void SetHandedOver(bool handed_over) RUNS_ON(control_loop) { handed_over_ = handed_over; }
  // Returns true if something waits for an answer.
  bool has_requests() const RUNS_ON(control_loop);
  // The worker's answer: OK, or why the session cannot go on with it. INVALID_ARGUMENT when none
  // was due.
  absl::Status OnDone(const warpline_internal::MemoryDone& done) RUNS_ON(control_loop);

  // The worker died: nothing is sent until another has everything.
  void Suspend() RUNS_ON(control_loop) { suspended_ = true; }
  // The session has failed: what was asked for is answered with that, and nothing is sent any more.
  void Abandon() RUNS_ON(control_loop);
  // Has the next worker, which is open, map all segments. It answers before it answers what it is
  // asked later.
  void MapAgain() RUNS_ON(control_loop);
  // Nothing is answered any more. Returns what outlives the session.
  KeptSegments End() RUNS_ON(control_loop);

  uint64_t bytes() const RUNS_ON(control_loop);

 private:
  struct Pending {
    uint64_t va = 0;
    bool unmap = false;
    Answer answer;  // Null for a segment that is mapped again.
  };

  bool Fits(uint64_t va, uint64_t bytes) const RUNS_ON(control_loop);
  // Makes a segment that Fits(), of new memory or of this. The result has its descriptor.
  Result Make(const warpline_internal::HostMemoryRequest& request, UniqueFd memory)
      RUNS_ON(control_loop);
  void SendMap(uint64_t va, Answer answer) RUNS_ON(control_loop);
  // Everything that waits gets this answer, and nothing is sent any more.
  void AnswerAll(CudaResult result) RUNS_ON(control_loop);
  void SendUnmap(uint64_t va, Answer answer) RUNS_ON(control_loop);
  void Drop(std::map<uint64_t, HostSegment>::iterator segment) RUNS_ON(control_loop);

  const std::shared_ptr<Quota> quota_;
  std::shared_ptr<Quota> tenant_quota_ ABSL_GUARDED_BY(control_loop);
  WorkerLink* const worker_;
  bool suspended_ ABSL_GUARDED_BY(control_loop) = false;
  bool handed_over_ ABSL_GUARDED_BY(control_loop) = false;
  uint64_t next_id_ ABSL_GUARDED_BY(control_loop) = 1;
  std::map<uint64_t, HostSegment> segments_ ABSL_GUARDED_BY(control_loop);  // By address.
  std::map<uint64_t, Pending> pending_ ABSL_GUARDED_BY(control_loop);       // By id.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_HOST_SEGMENTS_H_
