// Reads device memory for a session that has no worker of its own any more.
#ifndef WARPLINE_SERVER_WORKER_MEMORY_READER_H_
#define WARPLINE_SERVER_WORKER_MEMORY_READER_H_

#include <cstdint>

#include "common/cuda_result.h"
#include "server/device/device.h"

namespace warpline::worker {

// Copies [va, va + bytes) to the start of the file behind `fd` (borrowed) and waits for it. The
// device's error for what is not mapped.
CudaResult CopyMemoryToFile(device::Context* context, uint64_t va, uint64_t bytes, int fd);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_MEMORY_READER_H_
