// Copies between the device and host memory that it does not reach, through staging memory
// (staging.h), so that only commands go with the other commands. The device copies one piece while
// the processor, or the network, has the next.
#ifndef WARPLINE_CLIENT_STUB_CORE_BULK_BULK_COPIES_H_
#define WARPLINE_CLIENT_STUB_CORE_BULK_BULK_COPIES_H_

#include <atomic>
#include <cstdint>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/bulk/carried_staging.h"
#include "client_stub/core/bulk/copy_threads.h"
#include "client_stub/core/bulk/shared_staging.h"
#include "client_stub/core/bulk/staging.h"
#include "client_stub/core/memory/shared_host_memory.h"
#include "client_stub/core/runtime/objects.h"
#include "client_stub/session/bulk_memory.h"
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
  // From so many bytes on a copy to the device takes the driver longer when it rides, which holds
  // up what follows on its stream. Once a program has made so much of such copies it has staging
  // for them as well.
  static constexpr uint64_t kLeastOftenIn = SharedStaging::kLeastIn;
  static constexpr uint64_t kOftenBytes = 8u << 20;
  static constexpr int kFewSmall = 16;

  // Where bytes may go, all borrowed. Where nothing is shared, over the session's lane, and where
  // there is none of these, over connections to the server.
  struct Ways {
    SharedHostMemory* shared;
    BulkMemory* lane;
    BulkMemory* server;
  };

  BulkCopies(const Ways& ways, Commands* commands)
      : commands_(commands),
        shared_(ways.shared, commands),
        by_lane_(ways.lane, {.in = 4u << 20, .out = 256u << 10}, commands),
        by_server_(ways.server, {.in = 4u << 20, .out = 4u << 20}, commands) {}

  // Copies to the device's memory at `to`, in the order of the stream, and returns when `from` has
  // been read. `*done` gets how many bytes, from the first on, are on their way: fewer where there
  // is no staging memory, or others have all of it. The stream is not recorded or captured.
  CUresult CopyIn(Stream* stream, uint64_t to, const void* from, uint64_t bytes, uint64_t* done);
  // Returns true if a copy of `bytes` to the device, which is about to be made, should go this way.
  bool PaysIn(uint64_t bytes) {
    if (bytes >= kLeastIn || bytes < kLeastOftenIn) return bytes >= kLeastIn;
    return rode_in_.load(std::memory_order_relaxed) >= kOftenBytes ||
           rode_in_.fetch_add(bytes, std::memory_order_relaxed) >= kOftenBytes;
  }
  // Returns true if a copy of `bytes` to the host, which is about to be made, should go this way.
  bool PaysOut(uint64_t bytes) {
    return bytes >= kLeastOut || small_.load(std::memory_order_relaxed) >= kFewSmall ||
           small_.fetch_add(1, std::memory_order_relaxed) >= kFewSmall;
  }

  // Copies from the device's memory and returns when the bytes are there, with the error of an
  // earlier command as such a wait does. `*done` as above.
  CUresult CopyOut(Stream* stream, void* to, uint64_t from, uint64_t bytes, uint64_t* done);

 private:
  // Returns the first staging memory whose least() is at most `bytes` and that has room, and sets
  // `*parts` to the number of parts. Returns null if there is none now.
  Staging* Choose(uint64_t (Staging::*least)() const, uint64_t bytes, int* parts);
  // Cuts a copy into parts of whole pieces for the copying threads: copy(part, offset, bytes,
  // done).
  template <typename Copy>
  CUresult InParts(int parts, uint64_t piece_bytes, uint64_t bytes, uint64_t* done, Copy copy);

  Commands* const commands_;
  SharedStaging shared_;
  CarriedStaging by_lane_;
  CarriedStaging by_server_;
  CopyThreads threads_;
  std::atomic<int> small_{0};         // Copies to the host that rode.
  std::atomic<uint64_t> rode_in_{0};  // Bytes of copies to the device for which staging might pay.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BULK_BULK_COPIES_H_
