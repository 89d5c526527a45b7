#include "server/device/cpu/context/cpu_modules.h"

#include <memory>
#include <utility>

#include "server/device/cpu/memory/copy_bytes.h"
#include "server/device/cpu/modules/cpu_log.h"
#include "server/device/cpu/modules/cpu_module.h"

namespace warpline::cpu {
namespace {

using device::KernelId;
using device::ModuleId;

}  // namespace

CudaResult CpuModules::LoadModule(std::string_view image, ModuleId* module) {
  device::JitLog log;
  return LoadModuleJit(image, {}, &log, module);
}

CudaResult CpuModules::LoadModuleJit(std::string_view image, absl::Span<const device::JitOption>,
                                     device::JitLog* log, ModuleId* module) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  std::shared_ptr<CpuModule> loaded;
  const CudaResult result = CpuModule::Load(image, &memory_, &loaded, &log->errors);
  if (result != CudaResult::kSuccess) {
    if (const LogPermit permit = CpuLog().Ask(kModuleLine)) {
      permit.Warning("cpu device: module refused: ", log->errors);
    }
    return result;
  }
  *module = modules_.Add(std::move(loaded));
  return CudaResult::kSuccess;
}

CudaResult CpuModules::UnloadModule(ModuleId module) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  const std::shared_ptr<CpuModule> unloaded = modules_.Find(module);
  if (unloaded == nullptr) return CudaResult::kInvalidHandle;
  unloaded->WaitForLaunches();
  modules_.Remove(module);
  return streams_.error();
}

CudaResult CpuModules::Kernels(ModuleId module, std::vector<std::string>* names) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  const std::shared_ptr<CpuModule> found = modules_.Find(module);
  if (found == nullptr) return CudaResult::kInvalidHandle;
  *names = found->KernelNames();
  return CudaResult::kSuccess;
}

CudaResult CpuModules::FindKernel(ModuleId module, const std::string& name, KernelId* kernel) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  return modules_.FindKernel(module, name, kernel);
}

CudaResult CpuModules::FindGlobal(ModuleId module, const std::string& name, uint64_t* address,
                                  uint64_t* bytes) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  const std::shared_ptr<CpuModule> found = modules_.Find(module);
  if (found == nullptr) return CudaResult::kInvalidHandle;
  return found->FindGlobal(name, address, bytes);
}

CudaResult CpuModules::WriteVariable(ModuleId module, const std::string& name,
                                     std::string_view bytes, device::StreamId stream) {
  uint64_t address = 0;
  const CudaResult found = FindRoom(module, name, bytes.size(), &address);
  if (found != CudaResult::kSuccess) return found;
  return streams_.Submit(shared_->NumberOf(stream), StreamSet::When::kNowIfPossible,
                         [this, address, kept = std::string(bytes)] {
                           // The module may have been unloaded meanwhile.
                           if (!memory_.Contains(address, kept.size(), kWrites)) {
                             return CudaResult::kIllegalAddress;
                           }
                           CopyBytes(reinterpret_cast<void*>(address), kept.data(), kept.size());
                           return CudaResult::kSuccess;
                         });
}

CudaResult CpuModules::ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) {
  modules_.ManagedBlock(address, base, bytes);
  return CudaResult::kSuccess;
}

}  // namespace warpline::cpu
