// Calls about the driver itself: initialization, version, and the look-up of its functions.
#include <atomic>

#include "client_stub/core/base/entry_point.h"
#include "client_stub/core/base/environment.h"
#include "client_stub/core/entry/driver_view.h"
#include "client_stub/core/lifecycle/initialization.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/private_tables/export_tables.h"
#include "common/log/log.h"

using namespace warpline::stub;

namespace {

bool ValidFlags(cuuint64_t flags) {
  constexpr cuuint64_t kKnown =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  return (flags & ~kKnown) == 0;
}

// The newest version of CUDA whose functions were asked for: that of the newest runtime library in
// the process.
std::atomic<int> g_newest_caller{0};

void NoteCaller(int cuda_version) {
  int newest = g_newest_caller.load(std::memory_order_relaxed);
  while (newest < cuda_version && !g_newest_caller.compare_exchange_weak(newest, cuda_version)) {
  }
}

// Logs why a runtime library will refuse this driver: it refuses drivers of an older major version
// than its own, and only says cudaErrorInsufficientDriver.
void ExplainRefusal(int driver_version) {
  static std::atomic_flag said = ATOMIC_FLAG_INIT;
  const int newest = g_newest_caller.load(std::memory_order_relaxed);
  if (newest / 1000 <= driver_version / 1000 || said.test_and_set()) return;
  warpline::LogError("this program's libraries are for CUDA ", newest / 1000,
                     ", the server's driver is for CUDA ", driver_version / 1000, ".",
                     driver_version % 1000 / 10,
                     ": they will report an insufficient driver. Update the server's driver");
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
  ExplainRefusal(*driverVersion);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion,
                                     cuuint64_t flags,
                                     CUdriverProcAddressQueryResult* symbolStatus) {
  if (symbol == nullptr || pfn == nullptr || !ValidFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  NoteCaller(cudaVersion);
  // The status and NULL tell that there is no such function, as in NVIDIA's driver.
  *pfn = EntryPoint(symbol, cudaVersion, flags, symbolStatus);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion,
                                  cuuint64_t flags) {
  if (symbol == nullptr || pfn == nullptr || !ValidFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  NoteCaller(cudaVersion);
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
