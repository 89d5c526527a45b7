// Copies between the device and host memory that it does not reach, for a server on this host: the
// bytes go through staging memory that client, worker and device share, and only commands go to the
// server. The device copies one piece while the processor copies the next.
#ifndef WARPLINE_CLIENT_STUB_CORE_BULK_BULK_COPIES_H_
#define WARPLINE_CLIENT_STUB_CORE_BULK_BULK_COPIES_H_

#include <atomic>
#include <cstdint>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/bulk/copy_threads.h"
#include "client_stub/core/bulk/staging.h"
#include "client_stub/core/memory/shared_host_memory.h"
#include "client_stub/core/runtime/objects.h"
#include "client_stub/session/commands.h"

namespace warpline::stub {

// Thread-safe.
class BulkCopies {
 public:
  // Smaller copies ride in their commands and answers. To the device that is quick, since nobody
  // waits for them. To the host it is not, but a program that makes a few of them only shall not
  // have memory page-locked for it.
  static constexpr uint64_t kLeastIn = 128u << 10;
  static constexpr uint64_t kLeastOut = 16u << 10;
  static constexpr int kFewSmall = 16;

  // Both are borrowed.
  BulkCopies(SharedHostMemory* memory, Commands* commands)
      : commands_(commands), staging_(memory, commands) {}

  // Copies to the device's memory at `to`, in the order of the stream, and returns when `from` has
  // been read. `*done` gets how many bytes, from the first on, are on their way: fewer where there
  // is no staging memory, or others have all of it. The stream is not recorded or captured.
  CUresult CopyIn(Stream* stream, uint64_t to, const void* from, uint64_t bytes, uint64_t* done);
  // Whether a copy of `bytes` to the host, which is about to be made, should go this way.
  bool PaysOut(uint64_t bytes) {
    return bytes >= kLeastOut || small_.load(std::memory_order_relaxed) >= kFewSmall ||
           small_.fetch_add(1, std::memory_order_relaxed) >= kFewSmall;
  }

  // Copies from the device's memory and returns when the bytes are there, with the error of an
  // earlier command as such a wait does. `*done` as above.
  CUresult CopyOut(Stream* stream, void* to, uint64_t from, uint64_t bytes, uint64_t* done);

 private:
  CudaResult Await(WaitKind kind, const Stream& stream, uint64_t seq) {
    return commands_->Await(kind, stream.wire, seq, cmd::StreamSync{stream.wire});
  }
  // Of a copy, on any thread.
  CUresult PartIn(Stream* stream, uint64_t to, const char* from, uint64_t bytes, uint64_t* done);
  CUresult PartOut(Stream* stream, char* to, uint64_t from, uint64_t bytes, uint64_t* done,
                   std::atomic<uint64_t>* last);
  // Cuts a copy into parts for the copying threads: part(offset, bytes, done).
  template <typename Part>
  CUresult InParts(uint64_t bytes, uint64_t* done, Part part);

  Commands* const commands_;
  Staging staging_;
  CopyThreads threads_;
  std::atomic<int> small_{0};  // Copies to the host that rode.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BULK_BULK_COPIES_H_
