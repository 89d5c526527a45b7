// The modules that a context has loaded, and their kernels that were looked up, by number.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MODULES_MODULE_TABLE_H_
#define WARPLINE_SERVER_DEVICE_CPU_MODULES_MODULE_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/cpu/modules/cpu_module.h"
#include "server/device/facets/types.h"

namespace warpline::cpu {

// A kernel that has been looked up.
struct KernelHandle {
  device::ModuleId module{};
  std::shared_ptr<CpuModule> owner;
  std::shared_ptr<Kernel> kernel;  // Null when there is no such kernel.
};

// Thread-safe.
class ModuleTable {
 public:
  device::ModuleId Add(std::shared_ptr<CpuModule> module);
  // Returns null for a module that is not in the table.
  std::shared_ptr<CpuModule> Find(device::ModuleId module);
  // Removes the module with its kernels.
  void Remove(device::ModuleId module);

  // Gives a kernel the same number each time. kInvalidHandle for an unknown module, otherwise the
  // errors of CpuModule::FindKernel().
  CudaResult FindKernel(device::ModuleId module, const std::string& name, device::KernelId* kernel);
  KernelHandle Find(device::KernelId kernel);

  // Does what device::Modules::ManagedBlock() says, over all modules.
  void ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes);

 private:
  Mutex mu_;
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::unordered_map<device::ModuleId, std::shared_ptr<CpuModule>> modules_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<device::KernelId, KernelHandle> kernels_ ABSL_GUARDED_BY(mu_);
  std::map<std::pair<device::ModuleId, std::string>, device::KernelId> kernel_ids_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MODULES_MODULE_TABLE_H_
