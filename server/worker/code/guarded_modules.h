// Loads a session's modules guarded: what reaches the device is the PTX that guard/ has rewritten
// and verified, compiled there.
//
//   GuardedModules code(context, options, &notes);
//   devices.push_back({.context = context, .code = &code});
//
// A module's variables lie in the arena, and its constants behind the guard's words
// (docs/guarded-ptx.md): of that block, commands reach the constants alone. Machine code cannot be
// guarded: an image without PTX is refused.
#ifndef WARPLINE_SERVER_WORKER_CODE_GUARDED_MODULES_H_
#define WARPLINE_SERVER_WORKER_CODE_GUARDED_MODULES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "guard/guard.h"
#include "proto/guard.h"
#include "server/compiler/client/compiler_client.h"
#include "server/device/device.h"
#include "server/worker/code/guard_notes.h"
#include "server/worker/code/variable_room.h"
#include "server/worker/memory/small_copies.h"

namespace warpline::worker {

// Thread-safe: one module is loaded at a time.
class GuardedModules : public device::Modules,
                       public device::AddedParameter,
                       public device::KernelStops {
 public:
  // For so many records (guard/records.h) there is room at once.
  static constexpr uint32_t kRecords = 6000;
  // So many checked accesses are known by their places; others only by their numbers.
  static constexpr size_t kMostSites = 1u << 20;
  // What is kept of all modules in host memory, names of variables and why kernels are refused, is
  // so much together.
  static constexpr uint64_t kMostNameBytes = 16u << 20;

  struct Options {
    int sm = 0;  // That of the device, such as 90: newer PTX is not chosen.
    GuardMode mode = GuardMode::kHardened;
    GuardWindow window;
    // The device's part of the session's arena.
    uint64_t part_base = 0;
    uint64_t part_bytes = 0;
    // The device is one that other sessions share: nothing can be mapped for variables later, and
    // nothing of a tenant's is parsed or compiled in this process.
    bool shared = false;
    // There, the variables of all modules have so much memory together.
    uint64_t shared_room_bytes = 0;
    // Kernels with more local memory a thread are refused (device::SharedDeviceOptions); 0 for no
    // bound.
    uint64_t most_local_bytes = 0;
    // Guards and compiles the modules, into what it is asked for; borrowed. Null for this process
    // and its driver, which do so as well where the compiler cannot, unless the device is shared.
    compiler::CompilerClient* compiler = nullptr;
    compiler::Output output = compiler::Output::kCubin;
    // Told before code is brought onto the device, and after that; null for nobody. On a device
    // that others share it may take long, since it waits for their kernels.
    std::function<void(bool begins)> on_load = {};
  };

  // `context` and `notes` are borrowed; why something is not loaded is noted there.
  GuardedModules(device::Context* context, const Options& options, GuardNotes* notes);

  // kNoBinaryForGpu for an image without PTX, kInvalidPtx for a module of which nothing can be
  // guarded, kOutOfMemory without room for its variables, its code or its names,
  // kJitCompilerNotFound when the compiler has gone.
  CudaResult LoadModule(std::string_view image, device::ModuleId* module) override;
  CudaResult LoadModuleJit(std::string_view image, absl::Span<const device::JitOption> options,
                           device::JitLog* log, device::ModuleId* module) override;
  CudaResult CheckModule(device::ModuleId module) override { return inner_->CheckModule(module); }
  // It pays for each module as much as the module's code has bytes.
  void SetCodePayer(device::CodePayer* payer) override {
    MutexLock lock(&mu_);
    payer_ = payer;
  }
  CudaResult UnloadModule(device::ModuleId module) override;
  CudaResult Kernels(device::ModuleId module, std::vector<std::string>* names) override;
  // kNotSupported for a kernel that the guard has refused, kLaunchOutOfResources for one that takes
  // too much local memory.
  CudaResult FindKernel(device::ModuleId module, const std::string& name,
                        device::KernelId* kernel) override;
  bool LeavesRecords(device::ModuleId module) override;
  int PtxVersion(device::ModuleId module) override;
  // Each kernel has guard::LaunchWords.
  const device::AddedParameter* added_parameter() const override { return this; }
  bool TakeOff(std::vector<device::ParamLayout>* params) const override;
  void AddTo(std::string* params, const device::LaunchConfig& config, uint32_t stop) const override;
  // Only hardened kernels ask.
  device::KernelStops* kernel_stops() override {
    return options_.mode == GuardMode::kHardened ? this : nullptr;
  }
  uint32_t Take() override;
  void Give(uint32_t number) override;
  CudaResult Set(uint32_t number, bool stopped) override;
  bool WritableVariables(device::ModuleId module, std::vector<std::string>* names) override;
  // kNotSupported for a variable that the guard has refused.
  CudaResult FindGlobal(device::ModuleId module, const std::string& name, uint64_t* address,
                        uint64_t* bytes) override;
  CudaResult WriteVariable(device::ModuleId module, const std::string& name, std::string_view bytes,
                           device::StreamId stream) override;
  CudaResult ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) override;
  CudaResult TakeBlock(uint64_t* address) override;
  void FreeBlock(uint64_t address) override;

  // Where the records of its kernels are; 0 as long as no kernel writes any.
  uint64_t records() const;
  // Where the tables of ranges are (proto/guard.h); 0 as long as nothing is checked.
  uint64_t ranges() const;
  // Has kernels stop that ask, for good.
  void StopKernels();
  // Has a thread of a kernel nap for so long each time that it asks, guard::kLongestNapNs at most;
  // 0 for full pace. It waits for a copy of a few bytes, and for no kernel. Nothing happens once
  // kernels are to stop.
  CudaResult SetNap(uint32_t nap_ns);
  // The checked access with that number; false for an unknown one.
  bool FindSite(uint32_t number, guard::CheckSite* site) const;
  device::Context* context() const { return context_; }

 private:
  struct Loaded {
    std::vector<guard::PlacedVariable> global_variables;
    std::vector<guard::PlacedVariable> const_variables;
    std::map<std::string, std::string> refusals;  // Reasons by the kernels' names
    uint64_t name_bytes = 0;                      // Of all these.
    uint64_t code_bytes = 0;                      // Paid for.
    bool leaves_records = false;
    int target = 0;  // guard::GuardedText::target
    uint64_t globals = 0;
    uint64_t consts = 0;
    // Where commands name the constants. The driver puts them elsewhere in each process, and what
    // the application has asked for once it keeps. So on a shared device, where others have taken
    // memory before, they are named in the arena.
    uint64_t named_consts = 0;
  };

  // Makes the call, and says so (Options::on_load).
  CudaResult Loading(absl::FunctionRef<CudaResult()> load);

  // A guarded module before it is on the device.
  struct Ready {
    guard::GuardedText guarded;  // With its text only if nobody else has compiled it.
    std::optional<compiler::Compiled> compiled;

    std::string_view code() const { return compiled ? compiled->code() : guarded.text; }
  };
  // `text` is the image itself where others share the process.
  absl::StatusOr<Ready> MakeReady(std::string_view text, uint32_t first_site);

  // Notes why a kernel that was found is refused after all, and returns kLaunchOutOfResources.
  CudaResult CheckLocalMemory(const std::string& name, device::KernelId kernel);

  using Load = absl::FunctionRef<CudaResult(std::string_view text, device::ModuleId* module)>;
  CudaResult LoadGuarded(std::string_view image, Load load, device::ModuleId* module);
  // Loads it, with what it takes in `*loaded`; gives that back after an error.
  CudaResult LoadReady(const Ready& ready, Load load, device::ModuleId* module, Loaded* loaded)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Counts the names and the code of a module. kOutOfMemory, with nothing counted, beyond a bound.
  CudaResult Charge(const Ready& ready, Loaded* loaded) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Puts the variables and the guard's words where they belong.
  CudaResult Place(const guard::GuardedText& guarded, device::ModuleId module, Loaded* loaded)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The constants that the application may name, sizes by their places behind `consts`; the guard's
  // words come before them.
  static std::map<uint64_t, uint64_t> Constants(const Loaded& loaded);
  void GiveBack(const Loaded& loaded) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // No command reaches the module's constants from now on.
  void CloseConstants(device::ModuleId module);
  CudaResult PrepareRecords() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The words that kernels go by: a variable of a module of its own, since no kernel may write them
  // and so they cannot lie in the arena.
  CudaResult PreparePaceWords(uint64_t* address_of);
  // Writes all words that are in use.
  CudaResult WritePaceWords() ABSL_EXCLUSIVE_LOCKS_REQUIRED(pace_mu_);
  // The tables come first in the room, where the client expects them.
  CudaResult PrepareRanges() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Writes the table of the modules' variables.
  CudaResult WriteRanges() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void KeepSites(uint32_t first, std::vector<guard::CheckSite> sites)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool checks() const { return options_.mode == GuardMode::kReport; }

  device::Context* const context_;
  device::Modules* const inner_;
  const Options options_;
  GuardNotes* const notes_;
  mutable Mutex mu_;
  VariableRoom room_ ABSL_GUARDED_BY(mu_);
  SmallCopies copies_ ABSL_GUARDED_BY(mu_);
  std::map<device::ModuleId, Loaded> modules_ ABSL_GUARDED_BY(mu_);
  device::CodePayer* payer_ ABSL_GUARDED_BY(mu_) = nullptr;
  uint64_t name_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t records_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t ranges_ ABSL_GUARDED_BY(mu_) = 0;
  // Acquired after mu_. Whoever stops kernels or slows them down does not wait for a module that is
  // being loaded, which may wait for kernels.
  Mutex pace_mu_;
  SmallCopies pace_copies_ ABSL_GUARDED_BY(pace_mu_);
  device::ModuleId pace_module_ ABSL_GUARDED_BY(pace_mu_){};
  // Where the words are, once they are there. Written with the lock.
  std::atomic<uint64_t> pace_address_{0};
  // The words that are not stopped have this value, or are to have it.
  uint32_t pace_word_ ABSL_GUARDED_BY(pace_mu_) = 0;
  // Says of each number of KernelStops that was ever taken whether it is stopped. Number 0 never
  // is.
  std::vector<bool> stopped_ ABSL_GUARDED_BY(pace_mu_) = {false};
  std::vector<uint32_t> given_back_ ABSL_GUARDED_BY(pace_mu_);  // These are taken again first.
  // Blocks are to ask where they begin. Read without the lock: a launch that comes at the same time
  // may be told or not.
  std::atomic<bool> blocks_ask_{false};
  std::atomic<uint64_t> next_site_{1};
  std::map<uint32_t, std::vector<guard::CheckSite>> sites_ ABSL_GUARDED_BY(mu_);  // By the first
  size_t site_count_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_CODE_GUARDED_MODULES_H_
