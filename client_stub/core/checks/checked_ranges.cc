#include "client_stub/core/checks/checked_ranges.h"

#include <cstddef>
#include <string>
#include <string_view>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"
#include "proto/frames.h"
#include "proto/guard.h"

namespace warpline::stub {

CheckedRanges::CheckedRanges(const SessionTerms& terms, uint32_t devices, DeviceMemory* memory)
    : arena_base_(terms.arena_base),
      arena_bytes_(terms.arena_bytes),
      devices_(devices),
      memory_(memory) {}

uint64_t CheckedRanges::TableOf(uint32_t device) const {
  const uint64_t part = DeviceArenaBytes(arena_bytes_, devices_);
  return CheckedTables(arena_base_ + device * part, part);
}

CUresult CheckedRanges::BeforeWork(Device* device) {
  MutexLock lock(&mu_);
  uint64_t& written = written_[device->number];
  // Counted from 1, so that the first launch writes it in any case.
  const uint64_t changes = memory_->changes() + 1;
  if (written == changes) return CUDA_SUCCESS;
  const std::string table = CheckedTable(memory_->Ranges());
  WARPLINE_TRY(SynchronizeSession());
  const uint64_t address = TableOf(device->number);
  for (size_t done = 0; done < table.size(); done += kMaxTail) {
    const cmd::CopyToDevice part = {device->legacy.wire, address + done};
    WARPLINE_TRY(SendOn(&device->legacy, part, std::string_view(table).substr(done, kMaxTail)));
  }
  WARPLINE_TRY(SynchronizeSession());
  written = changes;
  return CUDA_SUCCESS;
}

}  // namespace warpline::stub
