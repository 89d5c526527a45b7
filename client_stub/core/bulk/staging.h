// The seam between copies and what their bytes pass through: pieces of page-locked memory on the
// server's host, and how bytes get there and back.
//
//   SharedStaging   client, worker and devices share the memory: the processor copies.
//   CarriedStaging  the server is on another host: bulk connections carry the bytes, one for each
//                   part of a copy; those of the session's lane, or those to the server.
#ifndef WARPLINE_CLIENT_STUB_CORE_BULK_STAGING_H_
#define WARPLINE_CLIENT_STUB_CORE_BULK_STAGING_H_

#include <cstddef>
#include <cstdint>

#include "client_stub/core/bulk/piece_pool.h"
#include "client_stub/session/bulk_memory.h"

namespace warpline::stub {

// Thread-safe. The parts of a copy are numbered from 0; each is one thread's.
class Staging {
 public:
  virtual ~Staging() = default;

  // The smallest copies for which it pays, to the device and to the host.
  virtual uint64_t least_in() const = 0;
  virtual uint64_t least_out() const = 0;
  // How many pieces of a part may be on their way at a time.
  virtual size_t ahead() const = 0;

  // Sees to there being pieces for a copy of `bytes` in `parts` parts. Returns how many parts it
  // may have, fewer where it has to be; 0 where there is no such memory, for now or at all.
  virtual int Reserve(uint64_t bytes, int parts) = 0;
  // Whether there will be such memory soon, for which a copy should not take the next staging.
  virtual bool Soon() const { return false; }
  // Where a part gets its pieces, which have one size in all parts.
  virtual PiecePool& pool(int part) = 0;

  // Tells whether bytes that are fetched can be those that the device wrote: they cannot when this
  // was another before the device's command, or is another in the ticket.
  virtual uint64_t Connection(int part) = 0;

  // Fill() begins to copy into a piece, and has read `from` when it returns; Fetch() begins to copy
  // out of one, and writes to `to` until Arrived() has returned. Arrived() waits until that is
  // done; false when it cannot be, and the copy has to take another way.
  virtual BulkTicket Fill(int part, uint64_t piece, const void* from, uint64_t bytes) = 0;
  virtual BulkTicket Fetch(int part, uint64_t piece, void* to, uint64_t bytes) = 0;
  virtual bool Arrived(int part, const BulkTicket& ticket) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BULK_STAGING_H_
