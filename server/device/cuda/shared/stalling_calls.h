// The driver's functions that stop or slow the work of all sessions that share a hardware context.
//
// Measured on an H200, each of them waits for running kernels of other streams or makes launches of
// other threads several times slower, except for cuMemsetD8, which runs on the driver's own legacy
// stream. A context of a shared device calls none of them once it is sealed;
// cuda_shared_device_test checks that.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_STALLING_CALLS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_STALLING_CALLS_H_

#define WARPLINE_STALLING_FUNCTIONS(F) \
  F(cuMemAlloc_v2)                     \
  F(cuMemFree_v2)                      \
  F(cuMemHostAlloc)                    \
  F(cuMemFreeHost)                     \
  F(cuMemHostRegister)                 \
  F(cuMemHostUnregister)               \
  F(cuModuleLoadDataEx)                \
  F(cuModuleUnload)                    \
  F(cuCtxSetLimit)                     \
  F(cuGreenCtxCreate)                  \
  F(cuGreenCtxDestroy)                 \
  F(cuMemsetD8)

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_STALLING_CALLS_H_
