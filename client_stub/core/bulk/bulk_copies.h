// Copies between the device and host memory that the device does not reach. The bytes go through
// staging memory (staging.h), so that only commands travel with the other commands. The device
// copies one piece while the processor or the network works on the next.
//
//   uint64_t done = 0;
//   if (copies.PaysIn(bytes)) WARPLINE_TRY(copies.CopyIn(stream, to, from, bytes, &done));
//   // The caller sends the bytes from `done` on in commands.
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
  // Smaller copies travel in their commands and answers. That is quick to the device, since no
  // thread waits for them. It is slow to the host, but a program that makes only a few such copies
  // should not have memory page-locked for it.
  static constexpr uint64_t kLeastIn = 128u << 10;
  static constexpr uint64_t kLeastOut = 16u << 10;
  // A copy to the device of at least this size takes the driver longer when it travels in a
  // command, and delays later work on its stream. Once a program has copied kOftenBytes in such
  // copies, they go through staging memory, too.
  static constexpr uint64_t kLeastOftenIn = SharedStaging::kLeastIn;
  static constexpr uint64_t kOftenBytes = 8u << 20;
  // The number of small copies to the host that travel in answers; later ones go through staging.
  static constexpr int kFewSmall = 16;

  // The ways that bytes may take, all borrowed, in the order of preference: memory shared with the
  // worker, the connections of the session's relay, and connections to the server.
  struct Ways {
    SharedHostMemory* shared;
    BulkMemory* relay;
    BulkMemory* server;
  };

  BulkCopies(const Ways& ways, Commands* commands)
      : commands_(commands),
        shared_(ways.shared, commands),
        by_relay_(ways.relay, {.in = 4u << 20, .out = 256u << 10}, commands),
        by_server_(ways.server, {.in = 4u << 20, .out = 4u << 20}, commands) {}

  // Copies to the device's memory at `to`, in the order of the stream, and returns when `from` has
  // been read. Sets `*done` to the number of bytes, from the first on, that are on their way. It is
  // less than `bytes` if there is no staging memory, or other copies have all of it. `notice` is
  // that of the copy on the device. REQUIRES: the stream's commands are not being recorded
  // (Stream::recorder).
  CUresult CopyIn(Stream* stream, uint64_t to, const void* from, uint64_t bytes, Notice notice,
                  uint64_t* done);
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

  // Copies from the device's memory, and returns when the bytes are there. Returns the error of an
  // earlier command, as a wait for the stream does. Sets `*done` to the number of bytes copied,
  // from the first on.
  CUresult CopyOut(Stream* stream, void* to, uint64_t from, uint64_t bytes, uint64_t* done);

  // Begins the same copy and returns at once. The bytes are there when command `*seq` is complete,
  // as with Commands::CopyOut(). Sets `*done` to the number of bytes, from the first on, for which
  // there was memory that client and worker share; `*seq` is set unless that is 0.
  CUresult CopyOutLater(Stream* stream, void* to, uint64_t from, uint64_t bytes, uint64_t* seq,
                        uint64_t* done);

 private:
  // Returns the first staging memory whose least() is at most `bytes` and that has room, and sets
  // `*parts` to the number of parts. Returns null if there is none now.
  Staging* Choose(uint64_t (Staging::*least)() const, uint64_t bytes, int* parts);
  // Cuts a copy into parts of whole units for the copying threads: copy(part, offset, bytes, done).
  template <typename Copy>
  CUresult InParts(int parts, uint64_t unit, uint64_t bytes, uint64_t* done, Copy copy);

  Commands* const commands_;
  SharedStaging shared_;
  CarriedStaging by_relay_;
  CarriedStaging by_server_;
  CopyThreads threads_;
  std::atomic<int> small_{0};         // Copies to the host that travelled in answers.
  std::atomic<uint64_t> rode_in_{0};  // Bytes of copies to the device for which staging might pay.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BULK_BULK_COPIES_H_
