// What a session asks the server for besides commands: memory of devices, handles, what others of
// its lease offer, memory of the host.
#ifndef WARPLINE_CLIENT_STUB_SESSION_MEMORY_REQUESTS_H_
#define WARPLINE_CLIENT_STUB_SESSION_MEMORY_REQUESTS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "client_stub/session/session_terms.h"
#include "common/cuda/cuda_result.h"
#include "common/unique_fd.h"

namespace warpline::stub {

// What a session offers to others of its lease: a handle's memory, the memory that backs a range of
// the arena, or, without either, an event.
struct SharedWhat {
  uint64_t handle = 0;
  uint64_t va = 0;
  uint64_t bytes = 0;
};

// What opens it. Of a range, `va` and `bytes` are what backs it, which reaches beyond the range.
struct SharedMemory {
  std::string token;
  uint64_t va = 0;
  uint64_t bytes = 0;
};

// Thread-safe.
class MemoryRequests {
 public:
  virtual ~MemoryRequests() = default;

  // Asks the server to back [va, va + bytes) with min <= bytes <= want and waits for the answer
  // (a round trip). `*grant` is what was backed. kOutOfMemory when the server refused.
  virtual CudaResult RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                                   Grant* grant) = 0;
  // Memory was refused without the server's being asked, because of `why`: counted, and logged once
  // for each kind of reason, like the server's own refusals.
  virtual void NoteRefusedMemory(CudaResult error, std::string_view why) = 0;
  // Gives back a whole grant of which nothing in flight uses anything.
  virtual void ReturnMemory(const Grant& grant) = 0;

  // Memory apart from the arena, which MemoryMap commands map there: asks for handles from `first`
  // on, of `bytes` each, of the device that they name, and waits for the answer. `*created`, at
  // least 1 and at most `count`, is how many there are. kOutOfMemory when the server refused.
  virtual CudaResult CreateHandles(uint64_t first, uint64_t bytes, uint64_t count,
                                   uint64_t* created) = 0;
  // Gives back a handle that is mapped nowhere any more.
  virtual void ReturnHandle(uint64_t handle) = 0;
  // Offers something to sessions of the same lease, and opens what another one offers: memory as a
  // handle, which has `bytes` as its offer said; without a handle, says whether the token is that
  // of an event. Both wait for the answer. kInvalidValue when there is no such thing.
  virtual CudaResult Share(const SharedWhat& what, SharedMemory* shared) = 0;
  virtual CudaResult OpenShared(const std::string& token, uint64_t handle, uint64_t bytes) = 0;
  // Has the server give [va, va + bytes) of the host arena (proto/frames.h), whole pages, to the
  // worker and this process, or take it back; waits for the answer. The caller maps `*fd`.
  // kNotSupported when the server is not on this host.
  virtual CudaResult ShareHostMemory(uint64_t va, uint64_t bytes, bool give_back, UniqueFd* fd) = 0;

  // After a sticky error: copies what is left of the memory to `dst`. kIllegalState while the
  // session is sound, its error when nothing is left, kInvalidValue for what is not its memory.
  virtual CudaResult ReadBack(void* dst, uint64_t va, uint64_t bytes) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_MEMORY_REQUESTS_H_
