// A worker's context on a real GPU: device::Context, call by call on the driver.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_CONTEXT_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_CONTEXT_H_

#include "server/device/context_of.h"
#include "server/device/cuda/cuda_arrays.h"
#include "server/device/cuda/cuda_copies.h"
#include "server/device/cuda/cuda_graphs.h"
#include "server/device/cuda/cuda_launches.h"
#include "server/device/cuda/cuda_links.h"
#include "server/device/cuda/cuda_memory.h"
#include "server/device/cuda/cuda_modules.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/cuda/cuda_partitions.h"
#include "server/device/cuda/cuda_streams.h"
#include "server/device/cuda/cuda_textures.h"
#include "server/device/facets/lacking.h"

namespace warpline::device {

using CudaContext =
    ContextOf<CudaMember, CudaMemory, CudaStreams, CudaCopies, CudaLaunches, CudaModules, CudaLinks,
              CudaArrays, CudaTextures, CudaGraphs, CudaPartitions, NoLibraries>;

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_CONTEXT_H_
