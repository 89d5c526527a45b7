// Finds the exported symbol that a cuGetProcAddress() request means.
//
// The table is generated from the toolkit's *Typedefs.h (tools/gen_entry_points.py). So are the
// exports of libcuda.so.1; thus every symbol named here is one of warpline_shim::names.
//
// Stateless and thread-safe.
#ifndef WARPLINE_CLIENT_STUB_SHIM_ENTRY_POINTS_H_
#define WARPLINE_CLIENT_STUB_SHIM_ENTRY_POINTS_H_

#include <cstdint>
#include <string_view>

#include "cuda.h"

namespace warpline {

// Returns the symbol of the newest ABI of `name` that CUDA `version` (12080 for 12.8) has, a static
// string. `flags` is a CUdriverProcAddress_flags: with PER_THREAD_DEFAULT_STREAM the "_ptsz" or
// "_ptds" variant is taken if `version` has one; 0 (default) and 1 (legacy stream) give the plain
// symbol; with both flags the variant is taken. `status` may be nullptr.
//
// Returns nullptr, with the status
//   CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND       for a name that no driver has, "" among them
//   CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT for a name that came with a later version
const char* ResolveSymbol(std::string_view name, int version, uint64_t flags,
                          CUdriverProcAddressQueryResult* status);

}  // namespace warpline

#endif  // WARPLINE_CLIENT_STUB_SHIM_ENTRY_POINTS_H_
