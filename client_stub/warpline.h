/* The functions of Warpline's libcuda.so.1 beyond CUDA. C and C++.
 *
 * A program that also runs on NVIDIA's driver looks these up with dlsym(RTLD_DEFAULT, ...). */
#ifndef WARPLINE_WARPLINE_H_
#define WARPLINE_WARPLINE_H_

#include <cuda.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Copies device memory to the host after a sticky error (a kernel's fault, a worker that died),
 * when every other call returns that error: memory outlives the context. The bytes that kernels
 * wrote before the error are there; writes in flight may be there in part. [src, src + bytes) must
 * be allocated.
 *
 * Returns CUDA_SUCCESS; CUDA_ERROR_ILLEGAL_STATE while the session is sound;
 * CUDA_ERROR_INVALID_VALUE for memory that is not the session's; CUDA_ERROR_NOT_INITIALIZED before
 * cuInit; the session's own error when its memory is gone too, as after the loss of the connection;
 * CUDA_ERROR_UNKNOWN when the server does not answer within a minute. */
CUresult warplineMemoryReadback(void* dst, CUdeviceptr src, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* WARPLINE_WARPLINE_H_ */
