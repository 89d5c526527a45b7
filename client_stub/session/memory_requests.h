// The requests of a session to the server besides commands: memory of devices, handles, memory that
// other sessions of its lease offer, and memory of the host.
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
// the arena, or, with neither, an event.
struct SharedWhat {
  uint64_t handle = 0;
  uint64_t va = 0;
  uint64_t bytes = 0;
  // An event, by its number, if none of the above is set; 0 for what has no number.
  uint64_t event = 0;
};

// A token that opens an offer. For a range, [va, va + bytes) is the whole memory that backs it,
// which may reach beyond the range.
struct SharedMemory {
  std::string token;
  uint64_t va = 0;
  uint64_t bytes = 0;
};

enum class HostSharing {
  kTake,
  // As memory that outlives the session, because bytes of the program itself are to lie in it.
  kTakeForProgram,
  // As memory for bytes on their way, as much as the server likes: that of the file that comes.
  kTakeForStaging,
  kGiveBack,
};

// Thread-safe.
class MemoryRequests {
 public:
  virtual ~MemoryRequests() = default;

  // Asks the server to back [va, va + bytes) with min_bytes <= bytes <= want_bytes and waits for
  // the answer (a round trip). `*grant` gets the backed memory. kOutOfMemory when the server
  // refused.
  virtual CudaResult RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                                   Grant* grant) = 0;
  // Notes that memory was refused without asking the server, because of `why`: this is counted, and
  // logged once for each kind of reason, like the server's own refusals.
  virtual void NoteRefusedMemory(CudaResult error, std::string_view why) = 0;
  // Gives back a whole grant that nothing in flight uses.
  virtual void ReturnMemory(const Grant& grant) = 0;

  // Asks for handles of memory apart from the arena, which MemoryMap commands map there. The
  // handles are numbered from `first` on, have `bytes` each, and belong to the device that their
  // numbers name. Waits for the answer. `*created` gets the number of handles made, at least 1 and
  // at most `count`. kOutOfMemory when the server refused.
  virtual CudaResult CreateHandles(uint64_t first, uint64_t bytes, uint64_t count,
                                   uint64_t* created) = 0;
  // Gives back a handle that is not mapped anywhere any more.
  virtual void ReturnHandle(uint64_t handle) = 0;
  // Share() offers something to sessions of the same lease. OpenShared() opens an offer of another
  // session: memory under `handle`, with the size `bytes` of the offer; with handle 0 it only tells
  // whether the token is that of an event. Both wait for the answer. kInvalidValue when there is no
  // such thing.
  virtual CudaResult Share(const SharedWhat& what, SharedMemory* shared) = 0;
  // The event is gone, and its offer, if there is one, is taken back some time later.
  virtual void EndSharedEvent(uint64_t event) = 0;
  virtual CudaResult OpenShared(const std::string& token, uint64_t handle, uint64_t bytes) = 0;
  // Makes the server give [va, va + bytes) of the host arena (proto/frames.h), whole pages, to the
  // worker and this process, or take it back; waits for the answer. The caller maps `*fd`.
  // kNotSupported when the server is not on this host.
  virtual CudaResult ShareHostMemory(HostSharing what, uint64_t va, uint64_t bytes,
                                     UniqueFd* fd) = 0;

  // Copies what is left of the memory to `dst` after a sticky error. kIllegalState while the
  // session is sound, its error when nothing is left, kInvalidValue for memory that is not the
  // session's.
  virtual CudaResult ReadBack(void* dst, uint64_t va, uint64_t bytes) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_MEMORY_REQUESTS_H_
