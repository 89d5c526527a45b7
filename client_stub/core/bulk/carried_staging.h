// Staging on another host, to which bulk connections carry the bytes.
#ifndef WARPLINE_CLIENT_STUB_CORE_BULK_CARRIED_STAGING_H_
#define WARPLINE_CLIENT_STUB_CORE_BULK_CARRIED_STAGING_H_

#include <array>
#include <cstdint>

#include "client_stub/core/bulk/staging.h"
#include "client_stub/session/bulk_memory.h"
#include "client_stub/session/commands.h"

namespace warpline::stub {

// Thread-safe. Part i of a copy goes through slot i of the bulk memory.
class CarriedStaging final : public Staging {
 public:
  // The smallest copies for which it pays, in bytes. Smaller copies are faster in their commands:
  // puts are waited for, and one connection may gain nothing over the session's own.
  struct Least {
    uint64_t in;
    uint64_t out;
  };

  // Both are borrowed.
  CarriedStaging(BulkMemory* memory, Least least, const Commands* commands);

  uint64_t least_in() const override { return least_.in; }
  uint64_t least_out() const override { return least_.out; }
  // A network is slower than a thread is to wake up.
  uint64_t part_unit() const override { return 256u << 10; }
  size_t ahead() const override { return 4; }  // More pieces would fall out of the caches.
  int Reserve(uint64_t bytes, int parts) override;
  bool Soon() const override { return memory_->Connecting(); }
  PiecePool& pool(int part) override { return pools_[static_cast<size_t>(part)]; }
  uint64_t Connection(int part) override {
    return memory_->Connection(static_cast<uint32_t>(part));
  }
  BulkTicket Fill(int part, uint64_t piece, const void* from, uint64_t bytes) override;
  BulkTicket Fetch(int part, uint64_t piece, void* to, uint64_t bytes) override;
  bool Arrived(int part, const BulkTicket& ticket) override {
    return memory_->Await(static_cast<uint32_t>(part), ticket);
  }

 private:
  BulkMemory* const memory_;
  const Least least_;
  std::array<PiecePool, BulkMemory::kSlots> pools_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BULK_CARRIED_STAGING_H_
