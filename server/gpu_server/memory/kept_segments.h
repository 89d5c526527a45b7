// Host memory that outlives its session, because it holds bytes of the client's program itself:
// pages of its heap or its stacks, which the program goes on using when the session has ended.
//
// It stays charged until the client has it no longer, which the server learns from the connection
// by which it was asked for (host_memory_port.h).
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_KEPT_SEGMENTS_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_KEPT_SEGMENTS_H_

#include <cstdint>
#include <map>

#include "common/unique_fd.h"
#include "memory/quota.h"

namespace warpline::server {

// A segment of host memory.
struct HostSegment {
  uint64_t bytes = 0;
  UniqueFd fd;
  Reservation charge;
  Reservation tenant_charge;
  bool outlives = false;  // The session.

  // Gives the memory back to the system, whoever still has it mapped: otherwise a mapping that the
  // client keeps would hold memory that nobody is charged for.
  void Empty();
};

// Thread-compatible. What is left in it when it is destroyed is charged no more, but stays as it
// is: so the memory of programs that outlive the server is theirs.
class KeptSegments {
 public:
  KeptSegments() = default;
  KeptSegments(KeptSegments&&) = default;
  KeptSegments& operator=(KeptSegments&&) = default;

  void Add(uint64_t va, HostSegment segment);
  bool empty() const { return segments_.empty(); }
  // The client has no bytes there any more. Returns false when there is no such segment.
  bool GiveBack(uint64_t va, uint64_t bytes);
  // The client is gone.
  void EmptyAll();

 private:
  std::map<uint64_t, HostSegment> segments_;  // By address.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_KEPT_SEGMENTS_H_
