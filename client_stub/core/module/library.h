// A library of the application: code that belongs to no context and becomes a module on each device
// where part of it is first used.
//
// A library's CUkernel is the same on all devices: it stands for the kernel of that name in the
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

  // Set before other threads know the library, and constant from then on.
  CUlibrary handle = nullptr;

  // Returns the module on `device`, which it makes at the first call. Nothing is sent before part
  // of the module is looked up.
  Module* On(Device* device);

  // Work like Module's methods, and ask the current device's module for names that are not known
  // yet.
  CUresult FindKernel(const std::string& name, CUkernel* kernel);
  // Finds on `device` a kernel that is known on another device.
  CUresult FindKernelOn(Device* device, const Kernel* kernel, Kernel** found);
  CUresult KernelNames(std::vector<std::string>* names);
  CUresult FirstKernels(size_t count, std::vector<CUkernel>* kernels);

  // Makes the handles of its modules and kernels invalid. Called once.
  void Unload();
  // Drops what the library has on a device, because the primary context there ends; handles of
  // kernels stay valid.
  void Reset(const Device& device);

 private:
  const std::string jit_options_;
  std::array<std::atomic<Module*>, kMaxSessionDevices> on_ = {};

  // Kernels that were launched on a device other than the one where they were first found. Each
  // such launch looks here.
  using KernelOnDevice = std::pair<const Kernel*, uint32_t>;
  Mutex elsewhere_mu_;
  absl::flat_hash_map<KernelOnDevice, Kernel*> elsewhere_ ABSL_GUARDED_BY(elsewhere_mu_);

  Mutex mu_;
  ModuleImage image_ ABSL_GUARDED_BY(mu_);
  bool unloaded_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::unique_ptr<Module>> modules_ ABSL_GUARDED_BY(mu_);
  // Kernels as they were first found.
  std::map<std::string, CUkernel> kernels_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MODULE_LIBRARY_H_
