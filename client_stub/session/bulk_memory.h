// Memory of the session on the server's host, and connections of its own through which bytes get
// there and back: for large copies where client and server share no memory. Commands copy between
// that memory and the device.
#ifndef WARPLINE_CLIENT_STUB_SESSION_BULK_MEMORY_H_
#define WARPLINE_CLIENT_STUB_SESSION_BULK_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proto/frames.h"

namespace warpline::stub {

// A put or a get that is under way on a bulk connection.
struct BulkTicket {
  uint64_t connection = 0;  // Of those that the slot has had.
  uint64_t number = 0;      // On that connection.
};

// Thread-safe. Each slot has a connection of its own and a part of the memory that only puts and
// gets of this slot reach. What is put and got on one connection is done in that order.
class BulkMemory {
 public:
  static constexpr uint32_t kSlots = kMaxBulkConnections;
  static constexpr uint64_t kSlotBytes = 8u << 20;

  // Where the memory of all slots of a session begins; of those of one object, Address() does.
  static constexpr uint64_t SlotAddress(uint32_t number) {
    return kHostArenaBase + number * kSlotBytes;
  }

  virtual ~BulkMemory() = default;

  // Where a slot's memory begins, for commands. Never to be accessed in this process.
  virtual uint64_t Address(uint32_t slot) const = 0;

  // Returns how many slots, from the first on, can be used. Where it is fewer than `wanted`, the
  // others are being connected in the background, unless the server has no such memory.
  virtual uint32_t Ready(uint32_t wanted) = 0;

  // Whether Ready() will say more soon, as far as is known: a copy rather goes with its commands
  // than another way that takes its time as well.
  virtual bool Connecting() = 0;

  // The connection that the slot has now; 0 for none. What was put on one before is over.
  virtual uint64_t Connection(uint32_t slot) = 0;

  // Begin to copy at most kMaxBulkPiece bytes. Put() has read `from` when it returns; Get() writes
  // to `to` until Await() has returned.
  virtual BulkTicket Put(uint32_t slot, uint64_t va, std::string_view from) = 0;
  virtual BulkTicket Get(uint32_t slot, uint64_t va, void* to, uint64_t bytes) = 0;
  // Waits until that is done. False when the connection was lost: it may be done later or not, and
  // nothing more is written.
  virtual bool Await(uint32_t slot, const BulkTicket& ticket) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_BULK_MEMORY_H_
