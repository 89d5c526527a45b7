#include "server/device/cpu/modules/module_table.h"

namespace warpline::cpu {

device::ModuleId ModuleTable::Add(std::shared_ptr<CpuModule> module) {
  MutexLock lock(&mu_);
  const device::ModuleId id{next_id_++};
  modules_[id] = std::move(module);
  return id;
}

std::shared_ptr<CpuModule> ModuleTable::Find(device::ModuleId module) {
  MutexLock lock(&mu_);
  const auto it = modules_.find(module);
  return it == modules_.end() ? nullptr : it->second;
}

void ModuleTable::Remove(device::ModuleId module) {
  MutexLock lock(&mu_);
  modules_.erase(module);
  for (auto it = kernel_ids_.begin(); it != kernel_ids_.end();) {
    if (it->first.first == module) {
      kernels_.erase(it->second);
      it = kernel_ids_.erase(it);
    } else {
      ++it;
    }
  }
}

CudaResult ModuleTable::FindKernel(device::ModuleId module, const std::string& name,
                                   device::KernelId* kernel) {
  KernelHandle handle;
  handle.module = module;
  handle.owner = Find(module);
  if (handle.owner == nullptr) return CudaResult::kInvalidHandle;
  const CudaResult result = handle.owner->FindKernel(name, &handle.kernel);
  if (result != CudaResult::kSuccess) return result;
  MutexLock lock(&mu_);
  const auto [it, added] =
      kernel_ids_.emplace(std::make_pair(module, name), device::KernelId{next_id_});
  if (added) {
    kernels_[it->second] = std::move(handle);
    ++next_id_;
  }
  *kernel = it->second;
  return CudaResult::kSuccess;
}

KernelHandle ModuleTable::Find(device::KernelId kernel) {
  MutexLock lock(&mu_);
  const auto it = kernels_.find(kernel);
  return it == kernels_.end() ? KernelHandle() : it->second;
}

void ModuleTable::ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) {
  *base = *bytes = 0;
  MutexLock lock(&mu_);
  for (const auto& [id, module] : modules_) {
    if (module->ManagedBlock(address, base, bytes)) break;
  }
}

}  // namespace warpline::cpu
