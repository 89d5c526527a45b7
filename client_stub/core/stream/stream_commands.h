// Commands that graphs and calls of the application give a stream in the same way.
#ifndef WARPLINE_CLIENT_STUB_CORE_STREAM_STREAM_COMMANDS_H_
#define WARPLINE_CLIENT_STUB_CORE_STREAM_STREAM_COMMANDS_H_

#include <cstddef>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"
#include "client_stub/core/stream/host_calls.h"

namespace warpline::stub {

// Each checks what it is given and fails as the application's call does.
CUresult SendHostCall(Stream* stream, const HostCalls::Call& call);
CUresult SendMemOps(Stream* stream, const CUstreamBatchMemOpParams* operations, size_t count);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_STREAM_COMMANDS_H_
