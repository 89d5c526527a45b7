// Staging in memory that client, worker and devices share.
#ifndef WARPLINE_CLIENT_STUB_CORE_BULK_SHARED_STAGING_H_
#define WARPLINE_CLIENT_STUB_CORE_BULK_SHARED_STAGING_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "client_stub/core/bulk/staging.h"
#include "client_stub/core/memory/shared_host_memory.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe. The memory is allocated when copies need it, and kept. A session of the guarded tier
// has one block of a size that the server chooses, its host window, or none. It makes fewer, larger
// copies, because each call of the driver makes the other sessions of its device wait.
class SharedStaging final : public Staging {
 public:
  static constexpr uint64_t kLeastIn = 16u << 10;
  static constexpr uint64_t kWindowPieceBytes = 1u << 20;

  // Both are borrowed.
  SharedStaging(SharedHostMemory* memory, const Commands* commands)
      : memory_(memory),
        pool_(commands, memory->only_staging() ? kWindowPieceBytes : PiecePool::kPieceBytes) {}

  uint64_t least_in() const override { return kLeastIn; }
  uint64_t least_out() const override { return 0; }
  uint64_t part_unit() const override { return pool_.piece_bytes(); }
  // The other threads have to wake up first.
  uint64_t least_shared() const override { return 4u << 20; }
  size_t ahead() const override { return 1; }  // The processor copies at once.
  int Reserve(uint64_t bytes, int parts) override;
  PiecePool& pool(int) override { return pool_; }
  uint64_t Connection(int) override { return 0; }
  BulkTicket Fill(int part, uint64_t piece, const void* from, uint64_t bytes) override;
  BulkTicket Fetch(int part, uint64_t piece, void* to, uint64_t bytes) override;
  bool Arrived(int, const BulkTicket&) override { return true; }

 private:
  SharedHostMemory* const memory_;
  PiecePool pool_;
  Mutex mu_;
  bool refused_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BULK_SHARED_STAGING_H_
