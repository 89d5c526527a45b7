// Launches: their parameters are packed here, and they are sent without waiting for an answer.
#ifndef WARPLINE_CLIENT_STUB_CORE_LAUNCH_LAUNCH_H_
#define WARPLINE_CLIENT_STUB_CORE_LAUNCH_LAUNCH_H_

#include <string_view>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/launch/launch_attributes.h"
#include "client_stub/core/launch/launch_check.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/module/kernel.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// Packs the parameters into `to` (kernel.parameter_bytes) from `params` or from `extra`. Bytes that
// neither gives are zero, not left over from the stack. CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES for more
// bytes than the kernel has.
CUresult PackParameters(const Kernel& kernel, void** params, void** extra, char* to);

// Called before kernels are sent on a stream: brings them the host's view of managed memory and,
// where they check their accesses, what is allocated. `work` lives until they are sent.
CUresult BeforeKernels(Stream* stream, MirroredMemory::Work* work);

// Sends a launch that has been checked, on a stream that does not capture. `attributes` may be
// nullptr.
CUresult SendLaunch(Kernel* kernel, Stream* stream, const LaunchGeometry& launch,
                    const LaunchAttributes* attributes, std::string_view packed);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_LAUNCH_LAUNCH_H_
