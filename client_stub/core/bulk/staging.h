// The interface between copies and staging memory: pieces of page-locked memory on the server's
// host, and the way that bytes take to them and back.
//
//   SharedStaging   client, worker and devices share the memory: the processor copies.
//   CarriedStaging  the server is on another host: bulk connections carry the bytes, one for each
//                   part of a copy; those of the session's relay, or those to the server.
#ifndef WARPLINE_CLIENT_STUB_CORE_BULK_STAGING_H_
#define WARPLINE_CLIENT_STUB_CORE_BULK_STAGING_H_

#include <cstddef>
#include <cstdint>

#include "client_stub/core/bulk/piece_pool.h"
#include "client_stub/session/bulk_memory.h"

namespace warpline::stub {

// Thread-safe. The parts of a copy are numbered from 0; one thread works on each.
class Staging {
 public:
  virtual ~Staging() = default;

  // Return the smallest copies for which it pays, to the device and to the host, in bytes.
  virtual uint64_t least_in() const = 0;
  virtual uint64_t least_out() const = 0;
  // Returns how much work of a copy, in bytes, is worth another thread. Parts have as much, or a
  // multiple of it, but for the last one.
  virtual uint64_t part_unit() const = 0;
  // Returns the smallest copy that has several parts.
  virtual uint64_t least_shared() const { return 2 * part_unit(); }
  // Returns how many pieces of a part may be on their way to or from staging memory at a time.
  virtual size_t ahead() const = 0;

  // Provides pieces for a copy of `bytes` in `parts` parts. Returns the number of parts that the
  // copy may have, which is at most `parts`. Returns 0 if there is no such memory, for now or at
  // all.
  virtual int Reserve(uint64_t bytes, int parts) = 0;
  // Returns whether there will be such memory soon. A copy should then not use the next kind of
  // staging.
  virtual bool Soon() const { return false; }
  // Returns the pool of a part's pieces. All parts have pieces of the same size.
  virtual PiecePool& pool(int part) = 0;

  // Returns the number of a part's connection. Fetched bytes are those that the device wrote only
  // if this number, taken before the device's command, equals the one in the fetch's ticket.
  virtual uint64_t Connection(int part) = 0;

  // Fill() begins to copy into a piece, and has read `from` when it returns. Fetch() begins to copy
  // out of a piece, and writes to `to` until Arrived() has returned. Arrived() waits until the copy
  // is done. It returns false if the copy cannot be done, and must take another way.
  virtual BulkTicket Fill(int part, uint64_t piece, const void* from, uint64_t bytes) = 0;
  virtual BulkTicket Fetch(int part, uint64_t piece, void* to, uint64_t bytes) = 0;
  virtual bool Arrived(int part, const BulkTicket& ticket) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BULK_STAGING_H_
