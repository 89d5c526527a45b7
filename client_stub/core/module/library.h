// A library of the application: code that is of no context, and becomes a module on each device
// where something of it is first used.
//
// A CUkernel of a library is one for all devices: it stands for the kernel of that name in the
// module on the device that a call means.
#ifndef WARPLINE_CLIENT_STUB_CORE_MODULE_LIBRARY_H_
#define WARPLINE_CLIENT_STUB_CORE_MODULE_LIBRARY_H_

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/module/module.h"
#include "client_stub/core/runtime/device.h"
#include "common/mutex.h"
#include "proto/devices.h"

namespace warpline::stub {

// Thread-safe. Owns its modules.
class Library {
 public:
  Library(ModuleImage image, std::string_view jit_options)
      : jit_options_(jit_options), image_(std::move(image)) {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Set before it is known to others, and constant then.
  CUlibrary handle = nullptr;

  // Nothing is sent before something of it is looked up.
  Module* On(Device* device);

  // As Module's. They ask the current device's module for what is not known yet.
  CUresult FindKernel(const std::string& name, CUkernel* kernel);
  // What one of its kernels, as it is on some device, is on another one.
  CUresult FindKernelOn(Device* device, const Kernel* kernel, Kernel** found);
  CUresult KernelNames(std::vector<std::string>* names);
  CUresult FirstKernels(size_t count, std::vector<CUkernel>* kernels);

  // Makes the handles of its modules and kernels invalid. Called once.
  void Unload();
  // What it had on a device goes, since the primary context there ends; handles of kernels stay.
  void Reset(const Device& device);

 private:
  const std::string jit_options_;
  std::array<std::atomic<Module*>, kMaxSessionDevices> on_ = {};

  // Kernels that were launched on another device than they were first found on. Each such launch
  // looks here.
  using KernelOnDevice = std::pair<const Kernel*, uint32_t>;
  Mutex elsewhere_mu_;
  absl::flat_hash_map<KernelOnDevice, Kernel*> elsewhere_ ABSL_GUARDED_BY(elsewhere_mu_);

  Mutex mu_;
  ModuleImage image_ ABSL_GUARDED_BY(mu_);
  bool unloaded_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::unique_ptr<Module>> modules_ ABSL_GUARDED_BY(mu_);
  // As they were first found.
  std::map<std::string, CUkernel> kernels_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MODULE_LIBRARY_H_
