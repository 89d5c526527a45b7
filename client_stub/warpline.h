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

/* Waits as cuStreamSynchronize and cuEventSynchronize do, for `seconds` at most, which may be 0 and
 * infinite. Nothing is asked of the server, so a device that hangs keeps no thread for longer.
 *
 * Returns CUDA_ERROR_TIMEOUT when that time has passed: nothing has changed, and the wait may be
 * tried again. CUDA_ERROR_INVALID_VALUE for a time that is negative or no number; otherwise what
 * the synchronizing call returns. */
CUresult warplineStreamWait(CUstream stream, double seconds);
CUresult warplineEventWait(CUevent event, double seconds);

/* Cancels the work that the stream has been given so far. Returns at once; warplineStreamWait
 * tells when nothing of it is left. What is sent to the stream afterwards comes after that.
 *
 * - Kernels, graphs, copies, fills, waits for events and operations on memory words that the device
 *   has not been given yet are dropped. What they would have written has any bytes. A call that
 *   waits for a dropped copy returns CUDA_ERROR_ILLEGAL_STATE; callbacks are told that error, and
 *   host functions are not called. Events that were recorded count as complete.
 * - What the device has been given, 512 commands at most, has begun. Hardened kernels, as all of a
 *   guarded session are, end where they next ask whether to stop, which takes milliseconds; other
 *   streams go on. Short kernels and copies complete.
 * - What has begun and cannot be stopped alone has a tenth of a second to end by itself; kernels
 *   that were told to stop have two. Then the session ends: calls return
 *   CUDA_ERROR_LAUNCH_TIMEOUT, and warplineMemoryReadback reads its memory.
 *
 * With WARPLINE_CANCEL_WAITING what has begun goes on, and the session with it.
 *
 * Returns CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE for unknown flags,
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED while the stream captures, and CUDA_ERROR_NOT_SUPPORTED
 * where the server is older than this function. */
#define WARPLINE_CANCEL_WAITING 1u
CUresult warplineStreamCancel(CUstream stream, unsigned int flags);

#ifdef __cplusplus
}
#endif

#endif /* WARPLINE_WARPLINE_H_ */
