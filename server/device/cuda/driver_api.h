// NVIDIA's driver, loaded at run time so that the same binary starts on a machine without one.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_DRIVER_API_H_
#define WARPLINE_SERVER_DEVICE_CUDA_DRIVER_API_H_

#include <cuda.h>

#include <string>

#include "absl/status/statusor.h"
#include "common/cuda/cuda_result.h"

namespace warpline::device {

// The functions that the cuda backend calls. None is among them that tells by an address what lies
// there and takes any pointer of the process, such as cuMemcpyAsync. cuda.h's macros turn each name
// into its current ABI symbol, so the pointer and the symbol always agree.
#define WARPLINE_DRIVER_FUNCTIONS(F)    \
  F(cuInit)                             \
  F(cuDriverGetVersion)                 \
  F(cuDeviceGetCount)                   \
  F(cuDeviceGet)                        \
  F(cuDeviceGetName)                    \
  F(cuDeviceTotalMem)                   \
  F(cuDeviceGetUuid)                    \
  F(cuDeviceGetPCIBusId)                \
  F(cuDeviceGetByPCIBusId)              \
  F(cuDeviceGetAttribute)               \
  F(cuDeviceCanAccessPeer)              \
  F(cuDevicePrimaryCtxRetain)           \
  F(cuDevicePrimaryCtxRelease)          \
  F(cuCtxSetCurrent)                    \
  F(cuCtxPushCurrent)                   \
  F(cuCtxPopCurrent)                    \
  F(cuCtxEnablePeerAccess)              \
  F(cuCtxGetStreamPriorityRange)        \
  F(cuMemAddressReserve)                \
  F(cuMemAddressFree)                   \
  F(cuMemCreate)                        \
  F(cuMemRelease)                       \
  F(cuMemMap)                           \
  F(cuMemUnmap)                         \
  F(cuMemSetAccess)                     \
  F(cuMemExportToShareableHandle)       \
  F(cuMemImportFromShareableHandle)     \
  F(cuMemGetAllocationGranularity)      \
  F(cuMemGetInfo)                       \
  F(cuMemAlloc_v2)                      \
  F(cuMemFree_v2)                       \
  F(cuMemHostAlloc)                     \
  F(cuMemHostRegister)                  \
  F(cuMemHostUnregister)                \
  F(cuMemHostGetDevicePointer)          \
  F(cuMemFreeHost)                      \
  F(cuMemsetD8)                         \
  F(cuMemsetD8Async)                    \
  F(cuMemsetD16Async)                   \
  F(cuMemsetD32Async)                   \
  F(cuMemsetD2D8Async)                  \
  F(cuMemsetD2D16Async)                 \
  F(cuMemsetD2D32Async)                 \
  F(cuMemcpyHtoDAsync)                  \
  F(cuMemcpyDtoHAsync)                  \
  F(cuMemcpyDtoDAsync)                  \
  F(cuMemcpyPeerAsync)                  \
  F(cuMemcpy3DAsync)                    \
  F(cuMemcpy3DPeerAsync)                \
  F(cuStreamCreateWithPriority)         \
  F(cuStreamDestroy)                    \
  F(cuStreamSynchronize)                \
  F(cuStreamQuery)                      \
  F(cuStreamWaitEvent)                  \
  F(cuStreamBatchMemOp)                 \
  F(cuStreamSetAttribute)               \
  F(cuEventCreate)                      \
  F(cuEventDestroy)                     \
  F(cuEventRecord)                      \
  F(cuEventQuery)                       \
  F(cuEventElapsedTime)                 \
  F(cuLaunchKernel)                     \
  F(cuLaunchKernelEx)                   \
  F(cuGraphCreate)                      \
  F(cuGraphDestroy)                     \
  F(cuGraphAddEmptyNode)                \
  F(cuGraphAddKernelNode)               \
  F(cuGraphAddMemsetNode)               \
  F(cuGraphAddMemcpyNode)               \
  F(cuGraphAddBatchMemOpNode)           \
  F(cuGraphKernelNodeSetAttribute)      \
  F(cuGraphInstantiate)                 \
  F(cuGraphLaunch)                      \
  F(cuGraphExecDestroy)                 \
  F(cuCtxGetLimit)                      \
  F(cuCtxSetLimit)                      \
  F(cuModuleLoadDataEx)                 \
  F(cuModuleGetFunction)                \
  F(cuModuleUnload)                     \
  F(cuOccupancyMaxActiveClusters)       \
  F(cuOccupancyMaxPotentialClusterSize) \
  F(cuLibraryLoadData)                  \
  F(cuLibraryUnload)                    \
  F(cuLibraryGetModule)                 \
  F(cuLibraryGetKernel)                 \
  F(cuLibraryGetKernelCount)            \
  F(cuLibraryEnumerateKernels)          \
  F(cuLibraryGetGlobal)                 \
  F(cuLibraryGetManaged)                \
  F(cuPointerGetAttribute)              \
  F(cuPointerGetAttributes)             \
  F(cuMemGetAddressRange)               \
  F(cuKernelGetFunction)                \
  F(cuKernelGetName)                    \
  F(cuKernelGetParamInfo)               \
  F(cuKernelGetAttribute)               \
  F(cuKernelSetAttribute)               \
  F(cuLinkCreate)                       \
  F(cuLinkAddData)                      \
  F(cuLinkComplete)                     \
  F(cuLinkDestroy)                      \
  F(cuTensorMapEncodeTiled)             \
  F(cuTensorMapEncodeIm2col)            \
  F(cuTensorMapReplaceAddress)          \
  F(cuDeviceGetTexture1DLinearMaxWidth) \
  F(cuArray3DCreate)                    \
  F(cuArray3DGetDescriptor)             \
  F(cuArrayDestroy)                     \
  F(cuArrayGetPlane)                    \
  F(cuMipmappedArrayCreate)             \
  F(cuMipmappedArrayGetLevel)           \
  F(cuMipmappedArrayDestroy)            \
  F(cuTexObjectCreate)                  \
  F(cuTexObjectDestroy)                 \
  F(cuSurfObjectCreate)                 \
  F(cuSurfObjectDestroy)                \
  F(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)

// What makes green contexts: parts of a device's multiprocessors. All of them are null when the
// driver is from before CUDA 12.5, in which cuGreenCtxStreamCreate came to those of 12.4.
#define WARPLINE_GREEN_FUNCTIONS(F) \
  F(cuDeviceGetDevResource)         \
  F(cuDevSmResourceSplitByCount)    \
  F(cuDevResourceGenerateDesc)      \
  F(cuGreenCtxCreate)               \
  F(cuGreenCtxDestroy)              \
  F(cuCtxFromGreenCtx)              \
  F(cuGreenCtxGetDevResource)       \
  F(cuGreenCtxStreamCreate)

// The functions, by their plain names. Immutable once loaded.
struct DriverApi {
#define WARPLINE_DECLARE(name) decltype(&::name) p_##name = nullptr;
  WARPLINE_DRIVER_FUNCTIONS(WARPLINE_DECLARE)
  WARPLINE_GREEN_FUNCTIONS(WARPLINE_DECLARE)
#undef WARPLINE_DECLARE
  // Null when the driver is from before CUDA 12.8.
  decltype(&::cuTensorMapEncodeIm2colWide) p_cuTensorMapEncodeIm2colWide = nullptr;
  // Null when the driver is from before CUDA 12.4.
  decltype(&::cuFuncLoad) p_cuFuncLoad = nullptr;
  // Null when the driver is from before CUDA 12.3.
  decltype(&::cuGraphAddNode) p_cuGraphAddNode = nullptr;
  decltype(&::cuGraphConditionalHandleCreate) p_cuGraphConditionalHandleCreate = nullptr;
};

// Makes LoadDriver() load the driver at `path`, in a process in which libcuda.so.1 is the name of
// something else (libraries/library_driver.h). Called before LoadDriver(), by one thread.
void UseDriverAt(std::string path);
// The driver's dlopen() handle. REQUIRES: LoadDriver() has succeeded.
void* DriverLibrary();

// Loads libcuda.so.1 and calls cuInit, once in the process. UNAVAILABLE when there is no driver,
// no device, or a driver too old to have every function.
absl::StatusOr<const DriverApi*> LoadDriver();

inline CudaResult ToResult(CUresult result) { return static_cast<CudaResult>(result); }

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_DRIVER_API_H_
