// Modules, their kernels, and the attributes that an application sets of kernels.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_KERNEL_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_KERNEL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "common/shared_mutex.h"
#include "server/device/device.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"
#include "server/worker/executors/decoder_thread.h"

namespace warpline::worker {

class Image;

// A module, and the result of loading it. Written by the control executor; others read it after
// they saw the control executor's `issued` pass `ticket`. It is shared because kernels keep their
// module.
struct Module {
  uint64_t ticket = 0;
  uint32_t device = 0;
  uint64_t image_bytes = 0;
  // Its image, until that is loaded.
  std::weak_ptr<const Image> image ABSL_GUARDED_BY(decoder_thread);
  uint64_t variable_bytes =
      0;  // The bytes that OutsideMemory counts for it; control executor only.
  CudaResult result = CudaResult::kNotReady;
  device::ModuleId id{};
  bool prints = false;  // Whether its kernels may print.
  device::JitLog log;   // The log of a load with options.
  // What only the worker has once a kernel of it may have run, as JournalFlags.
  uint32_t at_risk = 0;
  // The graphs and frames that have kernels of it.
  uint32_t holders ABSL_GUARDED_BY(decoder_thread) = 0;
  // It was unloaded while some had, and stays on the device until the last of them is gone. The
  // decoder sets it before it sends the unloading on.
  bool kept = false;
};

// The modules whose kernels a graph or a frame has.
struct ModuleHold {
  std::set<std::shared_ptr<Module>> held ABSL_GUARDED_BY(decoder_thread);
  // Those that end with the graph or frame. The decoder sets it with the command that destroys
  // that, and the control executor then unloads them.
  std::vector<std::shared_ptr<Module>> leaving;
};

// The CUfunction_attributes that an application may set, from kFirstSetting on.
constexpr int kFirstSetting = 8;
using KernelSettings = std::array<int, 8>;

// The present state of a kernel on the device. Guarded by the lock of the session's LaunchGate, but
// for the flag, and for what is constant.
struct KernelOnDevice {
  KernelOnDevice(device::Context* in, const KernelSettings& with) : context(in), settings(with) {}

  device::Context* context;
  KernelSettings settings;
  // It has been launched, so that nothing of it is loaded any more when it is again.
  std::atomic<bool> launched{false};
  // The kernel's part of what dispatch is told of a launch. Constant once it is found.
  dispatch::KernelFacts facts;
};

// A kernel, on the device of its module, as it is from one KernelSetAttribute to the next. Threads
// read it by the rule of Module. A launch keeps the one that was the latest when the client made
// the launch.
struct Kernel {
  std::shared_ptr<Module> module;
  uint64_t ticket = 0;
  CudaResult result = CudaResult::kNotReady;
  device::KernelId id{};
  uint32_t param_bytes = 0;                       // Without what is added
  const device::AddedParameter* added = nullptr;  // By the module's loader; null for nothing.
  // Null where nobody looks at what launches bring. All versions of a kernel share it.
  std::shared_ptr<const std::vector<device::ParamLayout>> params;
  KernelSettings settings{};
  std::shared_ptr<KernelOnDevice> on_device;  // All versions of a kernel share it.
};

// Makes sure that calls to the device find kernels with the attributes that they had when the
// client asked, whatever was set since: executors issue in another order than the client's. It
// costs a comparison as long as nothing was set in between. Thread-safe; there is one per session.
//
// Its lock is held during calls to the device, which do not wait for work: setting the attributes
// and the launch that needs them are two calls, and no other must come between.
class LaunchGate {
 public:
  // Returns what call() returns, with `kernels` (null ones are ignored) in their wanted state, or
  // the reason why the device cannot bring them there. All of them must have been found.
  CudaResult With(absl::Span<const std::shared_ptr<Kernel>> kernels,
                  absl::FunctionRef<CudaResult()> call);

  // Notes that a kernel that was just found in `context` has these settings there.
  static void Found(device::Context* context, const KernelSettings& settings, Kernel* kernel);
  // Makes `next` equal to `former` with one attribute changed. If the device refuses the change,
  // `next` is without it, and the result says why.
  CudaResult Set(const Kernel& former, int attribute, int value, Kernel* next);

 private:
  // The largest dynamic shared memory is raised and never lowered: a launch that needs less is not
  // affected, and the client checks launches against what it set.
  static bool Suits(const KernelSettings& settings, const KernelSettings& wanted);
  CudaResult Apply(const Kernel& kernel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Also guards every KernelOnDevice. Shared by launches; exclusive while attributes change.
  SharedMutex mu_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_KERNEL_H_
