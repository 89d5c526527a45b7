#include "server/worker/executors/kernel.h"

#include <algorithm>

namespace warpline::worker {
namespace {

// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
constexpr size_t kMaxDynamicSharedBytes = 8 - kFirstSetting;

}  // namespace

bool LaunchGate::Suits(const KernelSettings& settings, const KernelSettings& wanted) {
  static_assert(kMaxDynamicSharedBytes == 0);
  return settings[0] >= wanted[0] &&
         std::equal(settings.begin() + 1, settings.end(), wanted.begin() + 1);
}

CudaResult LaunchGate::Apply(const Kernel& kernel) {
  device::Context* const context = kernel.on_device->context;
  KernelSettings& settings = kernel.on_device->settings;
  for (size_t i = 0; i < settings.size(); ++i) {
    const int wanted = kernel.settings[i];
    const bool enough = i == kMaxDynamicSharedBytes && wanted >= 0 && settings[i] > wanted;
    if (settings[i] == wanted || enough) continue;
    const CudaResult result =
        context->SetKernelAttribute(kernel.id, kFirstSetting + static_cast<int>(i), wanted);
    if (result != CudaResult::kSuccess) return result;
    settings[i] = wanted;
  }
  return CudaResult::kSuccess;
}

CudaResult LaunchGate::With(absl::Span<const std::shared_ptr<Kernel>> kernels,
                            absl::FunctionRef<CudaResult()> call) {
  {
    SharedMutexLock lock(&mu_);
    const bool suit =
        std::all_of(kernels.begin(), kernels.end(), [](const std::shared_ptr<Kernel>& kernel) {
          return kernel == nullptr || Suits(kernel->on_device->settings, kernel->settings);
        });
    if (suit) return call();
  }
  ExclusiveMutexLock lock(&mu_);
  for (const std::shared_ptr<Kernel>& kernel : kernels) {
    if (kernel == nullptr) continue;
    const CudaResult result = Apply(*kernel);
    if (result != CudaResult::kSuccess) return result;
  }
  return call();
}

void LaunchGate::Found(device::Context* context, const KernelSettings& settings, Kernel* kernel) {
  kernel->settings = settings;
  kernel->on_device = std::make_shared<KernelOnDevice>(context, settings);
}

CudaResult LaunchGate::Set(const Kernel& former, int attribute, int value, Kernel* next) {
  next->result = former.result;
  next->id = former.id;
  next->param_bytes = former.param_bytes;
  next->added = former.added;
  next->params = former.params;
  next->settings = former.settings;
  next->on_device = former.on_device;
  if (former.result != CudaResult::kSuccess) return former.result;
  const int last = kFirstSetting + static_cast<int>(next->settings.size()) - 1;
  if (attribute < kFirstSetting || attribute > last) return CudaResult::kInvalidValue;
  int& setting = next->settings[static_cast<size_t>(attribute - kFirstSetting)];
  setting = value;
  ExclusiveMutexLock lock(&mu_);
  const CudaResult result = Apply(*next);
  if (result != CudaResult::kSuccess) next->settings = former.settings;
  return result;
}

}  // namespace warpline::worker
