#include "client_stub/core/module/library.h"

#include <algorithm>

#include "client_stub/core/runtime/runtime.h"

namespace warpline::stub {

Module* Library::On(Device* device) {
  std::atomic<Module*>& place = on_[device->number];
  if (Module* const module = place.load(std::memory_order_acquire); module != nullptr) {
    return module;
  }
  MutexLock lock(&mu_);
  if (Module* const module = place.load(std::memory_order_relaxed); module != nullptr) {
    return module;
  }
  modules_.push_back(std::make_unique<Module>(device, nullptr, this, image_, jit_options_));
  // If the library was unloaded meanwhile, the module tells the caller so.
  if (unloaded_) modules_.back()->Unload();
  place.store(modules_.back().get(), std::memory_order_release);
  return modules_.back().get();
}

CUresult Library::FindKernel(const std::string& name, CUkernel* kernel) {
  {
    MutexLock lock(&mu_);
    if (const auto it = kernels_.find(name); it != kernels_.end()) {
      *kernel = it->second;
      return CUDA_SUCCESS;
    }
  }
  Kernel* found;
  WARPLINE_TRY(On(&CurrentDevice())->FindKernel(name, &found));
  MutexLock lock(&mu_);
  // Another thread may have found it meanwhile, on another device.
  *kernel = kernels_.try_emplace(name, found->handle).first->second;
  return CUDA_SUCCESS;
}

CUresult Library::FindKernelOn(Device* device, const Kernel* kernel, Kernel** found) {
  {
    MutexLock lock(&elsewhere_mu_);
    const auto it = elsewhere_.find({kernel, device->number});
    if (it != elsewhere_.end()) {
      *found = it->second;
      return CUDA_SUCCESS;
    }
  }
  WARPLINE_TRY(On(device)->FindKernel(kernel->name, found));
  MutexLock lock(&elsewhere_mu_);
  elsewhere_[{kernel, device->number}] = *found;
  return CUDA_SUCCESS;
}

CUresult Library::KernelNames(std::vector<std::string>* names) {
  return On(&CurrentDevice())->KernelNames(names);
}

CUresult Library::FirstKernels(size_t count, std::vector<CUkernel>* kernels) {
  std::vector<std::string> names;
  WARPLINE_TRY(KernelNames(&names));
  for (size_t i = 0; i < std::min(count, names.size()); ++i) {
    WARPLINE_TRY(FindKernel(names[i], &kernels->emplace_back()));
  }
  return CUDA_SUCCESS;
}

void Library::Unload() {
  MutexLock lock(&mu_);
  unloaded_ = true;
  image_ = {};
  kernels_.clear();
  for (const auto& module : modules_) module->Unload();
}

void Library::Reset(const Device& device) {
  Module* const module = on_[device.number].load(std::memory_order_acquire);
  if (module != nullptr) module->Reset();
}

}  // namespace warpline::stub
