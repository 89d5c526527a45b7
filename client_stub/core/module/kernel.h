// A kernel of a module: the server's description of it, with which launches are checked and packed.
#ifndef WARPLINE_CLIENT_STUB_CORE_MODULE_KERNEL_H_
#define WARPLINE_CLIENT_STUB_CORE_MODULE_KERNEL_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/module/kernel_limits.h"
#include "client_stub/core/runtime/objects.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe: plain members are constant.
struct Kernel {
  static constexpr int kAttributes = 16;  // CUfunction_attribute 0 to 15.
  // No device takes this many parameter bytes.
  static constexpr uint32_t kMaxParameterBytes = 32768;

  struct Parameter {
    uint32_t offset;
    uint32_t bytes;
  };

  Module* module = nullptr;
  Device* device = nullptr;  // The module's.
  std::string name;
  // 0 once the context that it was found in has ended; Module::Bind() then finds another number.
  std::atomic<uint64_t> wire{0};
  CUkernel handle = nullptr;
  // The CUfunction of a library's kernel on this device, where there are several devices; made when
  // it is asked for.
  std::atomic<uint64_t> function{0};
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;
  std::atomic<int> attributes[kAttributes] = {};
  std::atomic<uint32_t> set_attributes{0};  // One bit for each that the application has set.

  int attribute(CUfunction_attribute which) const {
    return attributes[which].load(std::memory_order_relaxed);
  }
  KernelLimits limits() const {
    return {attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
            attribute(CU_FUNC_ATTRIBUTE_NUM_REGS),
            attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)};
  }

  // The values that cuFuncSetBlockShape, cuParamSetv and their like set for cuLaunch.
  struct LegacyLaunch {
    int block[3] = {1, 1, 1};
    unsigned int shared_bytes = 0;
    std::string parameters;  // The bytes that were set, however many.
    unsigned int parameter_bytes = 0;
  };
  Mutex legacy_mu;
  LegacyLaunch legacy ABSL_GUARDED_BY(legacy_mu);

  // Answers of cuOccupancyMaxActiveBlocksPerMultiprocessor, which programs ask for again and again.
  using OccupancyKey = std::tuple<uint32_t, uint64_t, uint32_t>;  // Threads, shared bytes, flags.
  Mutex occupancy_mu;
  std::map<OccupancyKey, int> occupancy ABSL_GUARDED_BY(occupancy_mu);
};

// Fills in attributes and parameters from the bytes of a KernelFind reply. Returns false for a
// malformed reply.
bool ParseKernelReply(std::string_view reply, Kernel* kernel);

// Finds the kernel of a CUfunction or a CUkernel, the latter as it was first found; returns nullptr
// for anything else.
Kernel* FindKernel(uint64_t handle);
// Finds the kernel on a device. CUDA_ERROR_INVALID_HANDLE for another device's CUfunction. A kernel
// that has not been used on the device is looked up there first.
CUresult FindKernelOn(uint64_t handle, Device* device, Kernel** kernel);
// Finds the kernel where only the handle says which device is meant: on the current device, unless
// it is another device's CUfunction.
CUresult FindFunction(uint64_t handle, Kernel** kernel);
// Returns a kernel's CUfunction; nullptr when there are too many, or its module is gone.
CUfunction FunctionOf(Kernel* kernel);

// Work like cuFuncGetAttribute, cuFuncSetAttribute and cuFuncGetParamInfo.
CUresult GetKernelAttribute(const Kernel& kernel, CUfunction_attribute attribute, int* value);
CUresult SetKernelAttribute(Kernel* kernel, CUfunction_attribute attribute, int value);
CUresult GetParameterInfo(const Kernel& kernel, size_t index, size_t* offset, size_t* bytes);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MODULE_KERNEL_H_
