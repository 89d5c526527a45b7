#include "client_stub/core/bulk/carried_staging.h"

#include <string_view>

namespace warpline::stub {

static_assert(PiecePool::kPieceBytes <= kMaxBulkPiece);
static_assert(BulkMemory::kSlots == 4, "as many as pools_ has initializers");

CarriedStaging::CarriedStaging(BulkMemory* memory, Least least, const Commands* commands)
    : memory_(memory),
      least_(least),
      pools_{PiecePool(commands), PiecePool(commands), PiecePool(commands), PiecePool(commands)} {
  for (uint32_t slot = 0; slot < BulkMemory::kSlots; ++slot) {
    pools_[slot].Add(memory_->Address(slot), BulkMemory::kSlotBytes);
  }
}

int CarriedStaging::Reserve(uint64_t, int parts) {
  return static_cast<int>(memory_->Ready(static_cast<uint32_t>(parts)));
}

BulkTicket CarriedStaging::Fill(int part, uint64_t piece, const void* from, uint64_t bytes) {
  return memory_->Put(static_cast<uint32_t>(part), piece,
                      std::string_view(static_cast<const char*>(from), bytes));
}

BulkTicket CarriedStaging::Fetch(int part, uint64_t piece, void* to, uint64_t bytes) {
  return memory_->Get(static_cast<uint32_t>(part), piece, to, bytes);
}

}  // namespace warpline::stub
