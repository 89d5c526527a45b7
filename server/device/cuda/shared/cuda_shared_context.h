// The context that one session has of a GPU that many share. It leaves nothing behind: its parts
// destroy what is left, in the reverse of their order here, and its memory goes last.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_CONTEXT_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_CONTEXT_H_

#include "server/device/context_of.h"
#include "server/device/cuda/cuda_arrays.h"
#include "server/device/cuda/cuda_copies.h"
#include "server/device/cuda/cuda_graphs.h"
#include "server/device/cuda/cuda_launches.h"
#include "server/device/cuda/cuda_links.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/cuda/cuda_streams.h"
#include "server/device/cuda/cuda_textures.h"
#include "server/device/cuda/shared/cuda_shared_memory.h"
#include "server/device/cuda/shared/cuda_shared_modules.h"

namespace warpline::device {

using CudaSharedContext =
    ContextOf<CudaMember, CudaSharedMemory, CudaStreams, CudaCopies, CudaLaunches,
              CudaSharedModules, CudaLinks, CudaArrays, CudaTextures, CudaGraphs>;

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_CONTEXT_H_
