// The addresses that cuGetProcAddress gives out.
#ifndef WARPLINE_CLIENT_STUB_CORE_BASE_ENTRY_POINT_H_
#define WARPLINE_CLIENT_STUB_CORE_BASE_ENTRY_POINT_H_

#include <cstdint>
#include <string_view>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/shim/core_abi.h"

namespace warpline::stub {

// Returns the index of `symbol` among the shim's names, or their count when it is not one of them.
uint32_t IndexOf(const warpline_shim& shim, std::string_view symbol);

// Makes EntryPoint() answer with the trampolines of `shim`, which must live as long as the process.
void SetShim(const warpline_shim* shim);

// Works like cuGetProcAddress_v2: returns the address that the application calls, or nullptr with a
// status. The address is the shim's trampoline, also for calls that this library does not
// implement: those return CUDA_ERROR_NOT_SUPPORTED and say so once.
void* EntryPoint(const char* name, int cuda_version, uint64_t flags,
                 CUdriverProcAddressQueryResult* status);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BASE_ENTRY_POINT_H_
