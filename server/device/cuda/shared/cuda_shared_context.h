// The context that one session has of a GPU that many share. It leaves nothing behind: its parts
// destroy what is left, in the reverse of their order here, and its memory goes last.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_CONTEXT_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_CONTEXT_H_

#include "server/device/bounded_grids.h"
#include "server/device/context_of.h"
#include "server/device/cuda/cuda_copies.h"
#include "server/device/cuda/cuda_launches.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/cuda/cuda_streams.h"
#include "server/device/cuda/shared/cuda_shared_graphs.h"
#include "server/device/cuda/shared/cuda_shared_libraries.h"
#include "server/device/cuda/shared/cuda_shared_memory.h"
#include "server/device/cuda/shared/cuda_shared_modules.h"
#include "server/device/facets/lacking.h"
#include "server/device/shared_parts.h"

namespace warpline::device {

// It has no links, whose pieces the driver would compile in this process, and neither arrays, whose
// end waits for kernels, nor textures, which guarded kernels cannot use. It has no partitions:
// making one waits for all kernels, and a session's multiprocessors change with its neighbours.
using CudaSharedContext =
    ContextOf<CudaMember, CudaSharedMemory, CudaStreams, WithoutWaits<CudaCopies>,
              WithBoundedGrids<CudaLaunches>, CudaSharedModules, NoLinks, NoArrays, NoTextures,
              WithBoundedNodes<WithoutLoops<CudaSharedGraphs>>, NoPartitions, CudaSharedLibraries>;

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_CONTEXT_H_
