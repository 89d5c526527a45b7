// The driver as such: initialization, version, and the ways to its functions.
#include "client_stub/core/driver_view.h"
#include "client_stub/core/entry_point.h"
#include "client_stub/core/runtime.h"
#include "client_stub/private_tables/export_tables.h"

using namespace warpline::stub;

namespace {

bool ValidFlags(cuuint64_t flags) {
  constexpr cuuint64_t kKnown =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  return (flags & ~kKnown) == 0;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuInit(unsigned int Flags) {
  if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return InitializeDriver();
}

CUresult CUDAAPI cuDriverGetVersion(int* driverVersion) {
  if (driverVersion == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *driverVersion = environment().driver_version;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion,
                                     cuuint64_t flags,
                                     CUdriverProcAddressQueryResult* symbolStatus) {
  if (symbol == nullptr || pfn == nullptr || !ValidFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  // That there is none is told by the status and by NULL, as NVIDIA's driver does.
  *pfn = EntryPoint(symbol, cudaVersion, flags, symbolStatus);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion,
                                  cuuint64_t flags) {
  if (symbol == nullptr || pfn == nullptr || !ValidFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  void* const found = EntryPoint(symbol, cudaVersion, flags, nullptr);
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  *pfn = found;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
  return warpline::GetExportTable(TheDriverView(), pExportTableId, ppExportTable);
}

// Profilers find nothing to profile in this process; programs that bracket a region still run.
CUresult CUDAAPI cuProfilerStart() { return EnterContext(); }
CUresult CUDAAPI cuProfilerStop() { return EnterContext(); }

}  // extern "C"
