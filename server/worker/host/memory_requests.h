// What the server asks of a worker's memory: to map chunks, to hold those of handles, to read back.
#ifndef WARPLINE_SERVER_WORKER_HOST_MEMORY_REQUESTS_H_
#define WARPLINE_SERVER_WORKER_HOST_MEMORY_REQUESTS_H_

#include <vector>

#include "common/cuda/cuda_result.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/worker/host/worker.h"

namespace warpline::worker {

// kIllegalState for what the worker is not open for. A range of the arena belongs to the device in
// whose part it lies, and to one only; a handle to the one that it names.
CudaResult MapMemory(const warpline_internal::MapMemory& map, const std::vector<UniqueFd>& fds,
                     Worker* worker);
CudaResult UnmapMemory(const warpline_internal::UnmapMemory& unmap, Worker* worker);
CudaResult HoldMemory(const warpline_internal::HoldMemory& hold, std::vector<UniqueFd> fds,
                      Worker* worker);
CudaResult DropMemory(const warpline_internal::DropMemory& drop, Worker* worker);
CudaResult MapHostMemory(const warpline_internal::HostSegment& segment,
                         const std::vector<UniqueFd>& fds, Worker* worker);
// Of a reader only.
CudaResult ReadMemory(const warpline_internal::ReadMemory& read, const std::vector<UniqueFd>& fds,
                      Worker* worker);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_MEMORY_REQUESTS_H_
