// The modules of a context of a shared device.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_MODULES_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_MODULES_H_

#include <cstdint>
#include <string_view>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cuda/cuda_modules.h"
#include "server/device/cuda/cuda_part.h"

namespace warpline::device {

// Thread-safe. It differs where the driver would wait for kernels of all who share the device.
class CudaSharedModules : public CudaModules {
 public:
  static constexpr Capabilities kGives = {};

  explicit CudaSharedModules(CudaMember* member) : CudaModules(member) {}

  // Loads a library alone, which has nothing to say: the log is empty.
  CudaResult LoadModuleJit(std::string_view image, absl::Span<const JitOption> options, JitLog* log,
                           ModuleId* module) override;
  CudaResult TakeBlock(uint64_t*) override { return Lacks(Capability::kVariableBlocks); }
  void FreeBlock(uint64_t) override {}
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_MODULES_H_
