// A loaded module: its parsed PTX, its variables in memory, and its kernels, which are lowered when
// they are first asked for.
//
// Thread-safe. Launches share ownership, so that code and variables outlive an unload.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MODULES_CPU_MODULE_H_
#define WARPLINE_SERVER_DEVICE_CPU_MODULES_CPU_MODULE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "ptx/ast.h"
#include "server/device/cpu/lowering/module_symbols.h"
#include "server/device/cpu/machine/kernel_code.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/facets/types.h"

namespace warpline::cpu {

// A kernel that can be launched. It is constant except for the attribute that an application may
// set.
struct Kernel {
  KernelCode code;
  std::vector<device::ParamLayout> params;
  uint32_t param_bytes = 0;
  uint32_t max_threads = 1024;
  uint32_t const_bytes = 0;  // Those of the module
  int ptx_version = 0;       // Target of the PTX, such as 75
  std::atomic<uint32_t> max_dynamic_shared_bytes{0};
};

class CpuModule {
 public:
  // Loads `image`. kNoBinaryForGpu for an image without PTX, kUnsupportedPtxVersion for PTX of a
  // later CUDA, kInvalidPtx for PTX that does not parse, kInvalidImage for what is no image.
  // `error` says why in words. `memory` must outlive the module.
  static CudaResult Load(std::string_view image, MemoryMap* memory,
                         std::shared_ptr<CpuModule>* module, std::string* error);

  CpuModule(const CpuModule&) = delete;
  CpuModule& operator=(const CpuModule&) = delete;
  ~CpuModule();

  std::vector<std::string> KernelNames() const;

  // kNotFound for an unknown name; kNotSupported for a kernel that uses what this device does not
  // have, with a log line that names it; kInvalidPtx for a kernel that is not sound.
  CudaResult FindKernel(const std::string& name, std::shared_ptr<Kernel>* kernel);

  // These bracket a launch, from its submission to its end or to its being dropped.
  void BeginLaunch();
  void EndLaunch();
  // Waits until no launch is left.
  void WaitForLaunches();

  // Where the variables lie.
  uint64_t variables_address() const { return region_; }
  uint64_t variables_bytes() const { return region_bytes_; }

  // kNotFound for an unknown name.
  CudaResult FindGlobal(const std::string& name, uint64_t* address, uint64_t* bytes) const;
  // Returns the range of all variables, if a managed one lies at `address`.
  bool ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) const;

 private:
  explicit CpuModule(MemoryMap* memory) : memory_(memory) {}
  CudaResult LoadPtx(const std::string& text, std::string* error);
  void NumberFunctions();
  CudaResult PlaceVariables();
  void Initialize(const ptx::Variable& variable, uint64_t address) const;

  MemoryMap* const memory_;
  ptx::Module ptx_;
  ModuleSymbols symbols_;
  std::map<std::string, const ptx::Function*> kernels_;
  uint64_t region_ = 0;  // The region of the variables; 0 when there are none
  uint64_t region_bytes_ = 0;
  uint32_t const_bytes_ = 0;
  int target_ = 0;

  Mutex mu_;
  CondVar idle_;
  int launches_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, std::shared_ptr<Kernel>> lowered_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MODULES_CPU_MODULE_H_
