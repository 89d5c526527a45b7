// The shim binds to this library here (core_abi.h).
#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/base/entry_point.h"
#include "client_stub/core/lifecycle/initialization.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/session/session.h"
#include "client_stub/shim/core_abi.h"
#include "client_stub/warpline.h"
#include "common/log/log.h"

namespace {

struct Function {
  const char* name;
  void* address;
};

// Every call that this library implements, from the table of calls.
const Function kFunctions[] = {
#define WARPLINE_ENTRY(symbol) {#symbol, reinterpret_cast<void*>(&(symbol))},
#include "proto/calls.inc"
#undef WARPLINE_ENTRY
};

}  // namespace

extern "C" int warpline_core_attach(const warpline_shim* shim, void** table) {
  using namespace warpline::stub;
  warpline::SetLogName("stub");
  if (shim->abi_version != WARPLINE_SHIM_ABI_VERSION) return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  for (const Function& function : kFunctions) {
    const uint32_t index = IndexOf(*shim, function.name);
    if (index != shim->count) table[index] = function.address;
  }
  SetSessionOpener(&Session::Open);
  SetPrinter(shim->print);
  SetShim(shim);
  return CUDA_SUCCESS;
}

// The shim's warplineMemoryReadback() calls this.
extern "C" CUresult warpline_memory_readback(void* dst, CUdeviceptr src, size_t bytes) {
  using namespace warpline::stub;
  WARPLINE_TRY(EnterInitialized());
  if (SessionError() == CUDA_SUCCESS) return CUDA_ERROR_ILLEGAL_STATE;
  if (bytes == 0) return CUDA_SUCCESS;
  if (dst == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return ToCu(runtime().session->memory().ReadBack(dst, src, bytes));
}
