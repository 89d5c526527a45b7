// Shared by the files with tables: how a slot is written, and the driver that slots ask.
#ifndef WARPLINE_CLIENT_STUB_PRIVATE_TABLES_TABLE_SLOTS_H_
#define WARPLINE_CLIENT_STUB_PRIVATE_TABLES_TABLE_SLOTS_H_

#include <atomic>
#include <cstddef>

#include "client_stub/private_tables/export_tables.h"
#include "common/log/log.h"

namespace warpline {

// The view that GetExportTable() was called with; every call passes the same one. Only slots may
// call View(), because there is no view before.
void SetView(DriverView* view);
DriverView& View();

// A slot that nothing known to work with this driver calls.
template <const char* kTable, int kSlot>
CUresult Refused() {
  static std::atomic_flag logged = ATOMIC_FLAG_INIT;
  if (!logged.test_and_set(std::memory_order_relaxed)) {
    LogWarning("function ", kSlot, " of table ", kTable, " is not supported");
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

template <typename Function>
void* Slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

// Slot 0 of a table with so many slots, itself included.
inline void* Size(size_t slots) { return reinterpret_cast<void*>(slots * sizeof(void*)); }

}  // namespace warpline

#endif  // WARPLINE_CLIENT_STUB_PRIVATE_TABLES_TABLE_SLOTS_H_
