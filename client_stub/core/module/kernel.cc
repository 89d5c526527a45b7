#include "client_stub/core/module/kernel.h"

#include <algorithm>

#include "client_stub/core/module/library.h"
#include "client_stub/core/module/module.h"
#include "client_stub/core/runtime/runtime.h"
#include "proto/wire.h"

namespace warpline::stub {

bool ParseKernelReply(std::string_view reply, Kernel* kernel) {
  cmd::KernelFindReply fields;
  if (!TakeStruct(&reply, &fields)) return false;
  for (int i = 0; i < Kernel::kAttributes; ++i) kernel->attributes[i].store(fields.attributes[i]);
  while (!reply.empty()) {
    Kernel::Parameter parameter;
    if (!TakeStruct(&reply, &parameter)) return false;
    if (parameter.offset > Kernel::kMaxParameterBytes ||
        parameter.bytes > Kernel::kMaxParameterBytes - parameter.offset) {
      return false;
    }
    kernel->parameters.push_back(parameter);
    kernel->parameter_bytes = std::max(kernel->parameter_bytes, parameter.offset + parameter.bytes);
  }
  return true;
}

Kernel* FindKernel(uint64_t handle) {
  const KernelRef* ref = runtime().kernels.Find(handle);
  return ref == nullptr ? nullptr : ref->kernel;
}

CUresult FindKernelOn(uint64_t handle, Device* device, Kernel** kernel) {
  const KernelRef* const ref = runtime().kernels.Find(handle);
  if (ref == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *kernel = ref->kernel;
  if ((*kernel)->device == device) return CUDA_SUCCESS;
  if (ref->bound) return CUDA_ERROR_INVALID_HANDLE;
  return (*kernel)->module->library()->FindKernelOn(device, *kernel, kernel);
}

CUresult FindFunction(uint64_t handle, Kernel** kernel) {
  const KernelRef* const ref = runtime().kernels.Find(handle);
  if (ref == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return FindKernelOn(handle, ref->bound ? ref->kernel->device : &CurrentDevice(), kernel);
}

CUfunction FunctionOf(Kernel* kernel) {
  // One handle serves as both where there is no difference.
  if (!runtime().several_devices() || kernel->module->library() == nullptr) {
    return HandleOf<CUfunction>(NumberOf(kernel->handle));
  }
  return kernel->module->FunctionOf(kernel);
}

CUresult GetKernelAttribute(const Kernel& kernel, CUfunction_attribute attribute, int* value) {
  if (value == nullptr || attribute < 0 || attribute >= Kernel::kAttributes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *value = kernel.attribute(attribute);
  return CUDA_SUCCESS;
}

CUresult SetKernelAttribute(Kernel* kernel, CUfunction_attribute attribute, int value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      const int most =
          kernel->device->attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
      if (value < 0 || value > most - kernel->attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      break;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: {
      // Values that the kernel was compiled with cannot be changed.
      const bool own = (kernel->set_attributes.load() >> attribute & 1) != 0;
      if (value < 0 || (kernel->attribute(attribute) != 0 && !own)) return CUDA_ERROR_INVALID_VALUE;
      break;
    }
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      if (value < CU_CLUSTER_SCHEDULING_POLICY_DEFAULT ||
          value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  // Libraries set the same value before each launch.
  if (kernel->attribute(attribute) == value) return CUDA_SUCCESS;
  uint64_t wire;
  WARPLINE_TRY(kernel->module->Bind(kernel, &wire));
  const cmd::KernelSetAttribute command = {wire, static_cast<int32_t>(attribute), value};
  WARPLINE_TRY(ToCu(runtime().commands->Call(WaitKind::kRoundTrip, command)));
  kernel->attributes[attribute].store(value, std::memory_order_relaxed);
  kernel->set_attributes.fetch_or(1u << attribute);
  MutexLock lock(&kernel->occupancy_mu);
  kernel->occupancy.clear();
  return CUDA_SUCCESS;
}

CUresult GetParameterInfo(const Kernel& kernel, size_t index, size_t* offset, size_t* bytes) {
  if (offset == nullptr || index >= kernel.parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel.parameters[index].offset;
  if (bytes != nullptr) *bytes = kernel.parameters[index].bytes;
  return CUDA_SUCCESS;
}

}  // namespace warpline::stub
