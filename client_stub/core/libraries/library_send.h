// Sends calls of libraries' functions, without waiting for them.
#ifndef WARPLINE_CLIENT_STUB_CORE_LIBRARIES_LIBRARY_SEND_H_
#define WARPLINE_CLIENT_STUB_CORE_LIBRARIES_LIBRARY_SEND_H_

#include <cstdint>

#include "absl/types/span.h"
#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// Sends a call that has been checked, on a stream that does not capture (LibraryCall of
// proto/calls.toml).
CUresult SendLibraryCall(Stream* stream, uint32_t function, uint32_t modes,
                         absl::Span<const uint64_t> values);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_LIBRARIES_LIBRARY_SEND_H_
