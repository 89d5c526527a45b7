// Functions that the shim calls for the libraries beside this one
// (client_stub/shim/library_abi.h).
#ifndef WARPLINE_CLIENT_STUB_CORE_LIBRARIES_LIBRARY_CALLS_H_
#define WARPLINE_CLIENT_STUB_CORE_LIBRARIES_LIBRARY_CALLS_H_

#include <cstdint>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/shim/library_abi.h"

extern "C" CUresult warpline_library_find(unsigned* version);
extern "C" CUresult warpline_library_call(CUstream stream, unsigned function, unsigned modes,
                                          const uint64_t* values, unsigned count);
extern "C" CUresult warpline_library_ask(warpline_library_question* question);

#endif  // WARPLINE_CLIENT_STUB_CORE_LIBRARIES_LIBRARY_CALLS_H_
