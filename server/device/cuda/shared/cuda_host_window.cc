#include "server/device/cuda/shared/cuda_host_window.h"

#include <sys/mman.h>

#include <utility>

#include "absl/memory/memory.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cuda/cuda_part.h"

namespace warpline::device {

absl::StatusOr<std::unique_ptr<CudaHostWindow>> CudaHostWindow::Open(const DriverApi* api,
                                                                     CUcontext context,
                                                                     QuietMoments* moments, int fd,
                                                                     uint64_t bytes) {
  auto window = absl::WrapUnique(new CudaHostWindow(api, context, moments, bytes));
  auto host = window->Map(fd);
  if (!host.ok()) return host.status();
  const CUresult result =
      window->WithContext([&] { return moments->At([&] { return window->Register(*host); }); });
  if (result != CUDA_SUCCESS) {
    munmap(*host, bytes);
    if (result == CUDA_ERROR_SYSTEM_NOT_READY) {
      return absl::UnavailableError("kernels of others do not end");
    }
    return StatusFromCudaResult(ToResult(result), "locking memory of the host");
  }
  window->host_ = *host;
  return window;
}

CudaHostWindow::~CudaHostWindow() {
  if (host_ == nullptr) return;
  WithContext([&] { return api_->p_cuMemHostUnregister(host_); });
  munmap(host_, bytes_);
}

absl::StatusOr<void*> CudaHostWindow::Map(int fd) const {
  void* const host = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (host == MAP_FAILED) return absl::ResourceExhaustedError("cannot map memory of the host");
  return host;
}

// Commands that fill memory do so with kernels, which reach it where the host has it or nowhere.
CUresult CudaHostWindow::Register(void* host) const {
  CUresult result = api_->p_cuMemHostRegister(
      host, bytes_, CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE);
  if (result != CUDA_SUCCESS) return result;
  CUdeviceptr device = 0;
  result = api_->p_cuMemHostGetDevicePointer(&device, host, 0);
  if (result == CUDA_SUCCESS && device != reinterpret_cast<CUdeviceptr>(host)) {
    result = CUDA_ERROR_NOT_SUPPORTED;
  }
  if (result != CUDA_SUCCESS) api_->p_cuMemHostUnregister(host);
  return result;
}

CUresult CudaHostWindow::WithContext(absl::FunctionRef<CUresult()> call) const {
  CUresult result = api_->p_cuCtxPushCurrent(context_);
  if (result != CUDA_SUCCESS) return result;
  result = call();
  CUcontext popped = nullptr;
  api_->p_cuCtxPopCurrent(&popped);
  return result;
}

absl::Status CudaHostWindow::Replace(int fd) {
  void* next = nullptr;
  if (fd >= 0) {
    auto mapped = Map(fd);
    if (!mapped.ok()) return mapped.status();
    next = *mapped;
  }
  void* former = nullptr;
  const CUresult result = WithContext([&] {
    return moments_->IfQuiet([&] {
      void* const leaving = std::exchange(host_, nullptr);
      const CUresult let_go = api_->p_cuMemHostUnregister(leaving);
      // Memory that cannot be unregistered stays mapped: the device might still reach it.
      if (let_go == CUDA_SUCCESS) former = leaving;
      return let_go != CUDA_SUCCESS || next == nullptr ? let_go : Register(next);
    });
  });
  if (former != nullptr) munmap(former, bytes_);
  if (result == CUDA_SUCCESS) {
    host_ = next;
    return absl::OkStatus();
  }
  if (next != nullptr) munmap(next, bytes_);
  if (host_ != nullptr) return absl::UnavailableError("kernels run");
  return StatusFromCudaResult(ToResult(result), "locking memory of the host");
}

}  // namespace warpline::device
