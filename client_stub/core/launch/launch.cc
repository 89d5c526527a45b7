#include "client_stub/core/launch/launch.h"

#include <cstring>
#include <string>

#include "client_stub/core/checks/checked_ranges.h"
#include "client_stub/core/managed/mirrored_memory.h"
#include "client_stub/core/module/module.h"
#include "client_stub/core/pinned/pinned_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"

namespace warpline::stub {
namespace {

// Reads the list behind `extra` into the packed parameters and their size.
CUresult ReadExtra(void** extra, std::string_view* packed) {
  const char* buffer = nullptr;
  const size_t* size = nullptr;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = static_cast<const char*>(extra[1]);
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      size = static_cast<const size_t*>(extra[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (buffer == nullptr || size == nullptr || *size == 0) return CUDA_ERROR_INVALID_VALUE;
  *packed = {buffer, *size};
  return CUDA_SUCCESS;
}

template <typename Command>
void SetGeometry(const LaunchGeometry& launch, Command* command) {
  command->grid_x = launch.grid[0];
  command->grid_y = launch.grid[1];
  command->grid_z = launch.grid[2];
  command->block_x = launch.block[0];
  command->block_y = launch.block[1];
  command->block_z = launch.block[2];
  command->dynamic_shared_bytes = launch.dynamic_shared_bytes;
}

}  // namespace

CUresult PackParameters(const Kernel& kernel, void** params, void** extra, char* to) {
  std::memset(to, 0, kernel.parameter_bytes);
  if (params != nullptr) {
    for (size_t i = 0; i < kernel.parameters.size(); ++i) {
      if (params[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      const Kernel::Parameter& parameter = kernel.parameters[i];
      std::memcpy(to + parameter.offset, params[i], parameter.bytes);
    }
    return CUDA_SUCCESS;
  }
  if (extra == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string_view packed;
  WARPLINE_TRY(ReadExtra(extra, &packed));
  // NVIDIA's driver accepts fewer bytes than the kernel has, and returns this error for more.
  if (packed.size() > kernel.parameter_bytes) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  std::memcpy(to, packed.data(), packed.size());
  return CUDA_SUCCESS;
}

CUresult BeforeKernels(Stream* stream, MirroredMemory::Work* work) {
  Runtime& r = runtime();
  WARPLINE_TRY(work->ForKernels(stream->wire));
  // The bytes that were sent may refer to page-locked memory, which has to be sent, too.
  while (r.pinned->noted()) {
    work->End();
    WARPLINE_TRY(r.pinned->GiveNoted());
    WARPLINE_TRY(work->ForKernels(stream->wire));
  }
  return r.checked_ranges == nullptr ? CUDA_SUCCESS : r.checked_ranges->BeforeWork(stream->device);
}

CUresult SendLaunch(Kernel* kernel, Stream* stream, const LaunchGeometry& launch,
                    const LaunchAttributes* attributes, std::string_view packed) {
  uint64_t wire;
  WARPLINE_TRY(kernel->module->Bind(kernel, &wire));
  std::string own;
  if (runtime().pinned->watches()) {
    WARPLINE_TRY(runtime().pinned->BeforeLaunch(&packed, &own));
    // The device's address of registered memory may be another one at the next launch.
    if (stream->recorder != nullptr && !own.empty()) return CUDA_ERROR_NOT_SUPPORTED;
  }
  // Called after the parameters were read, since they may lie in mirrored memory. For a recorded
  // command, the launch of the graph does this.
  MirroredMemory::Work work(runtime().mirrored);
  if (stream->recorder == nullptr) WARPLINE_TRY(BeforeKernels(stream, &work));
  if (attributes == nullptr || attributes->plain()) {
    cmd::Launch command = {.stream = stream->wire, .kernel = wire};
    SetGeometry(launch, &command);
    return SendOn(stream, command, packed);
  }
  cmd::LaunchEx command = {.stream = stream->wire, .kernel = wire};
  SetGeometry(launch, &command);
  command.cooperative = attributes->cooperative ? 1 : 0;
  command.attribute_count = attributes->wire_count;
  return SendOn(stream, command, attributes->wire + std::string(packed));
}

}  // namespace warpline::stub
