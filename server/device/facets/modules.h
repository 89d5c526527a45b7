// A context's modules: loaded code, its kernels and its variables.
//
//   ModuleId module;
//   KernelId kernel;
//   CudaResult result = modules->LoadModule(image, &module);
//   if (result == CudaResult::kSuccess) result = modules->FindKernel(module, "scale", &kernel);
#ifndef WARPLINE_SERVER_DEVICE_FACETS_MODULES_H_
#define WARPLINE_SERVER_DEVICE_FACETS_MODULES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Pays for the device memory of machine code. Thread-safe.
class CodePayer {
 public:
  virtual ~CodePayer() = default;
  // kOutOfMemory, with nothing taken, where there is no more for whoever pays.
  virtual CudaResult TakeCode(uint64_t bytes) = 0;
  virtual void GiveCode(uint64_t bytes) = 0;
};

// A parameter that a loader adds to kernels behind their own, and that clients do not know.
// Thread-safe.
class AddedParameter {
 public:
  virtual ~AddedParameter() = default;
  // Takes it off the end of a kernel's parameters. Returns false if it is not there.
  virtual bool TakeOff(std::vector<ParamLayout>* params) const = 0;
  // Appends its value for a launch to the bytes of the kernel's own parameters. `stop` is the
  // number of KernelStops by which the kernel goes; 0 for none.
  virtual void AddTo(std::string* params, const LaunchConfig& config, uint32_t stop) const = 0;
};

// Ends kernels of one stream and of no other. A stream takes a number, its kernels are launched
// with it (AddedParameter::AddTo), and those that ask whether to stop end while the number is
// stopped.
//
// Thread-safe.
class KernelStops {
 public:
  virtual ~KernelStops() = default;
  // Returns a number that is not stopped, or 0 where none is left.
  virtual uint32_t Take() = 0;
  // REQUIRES: no kernel with this number is under way.
  virtual void Give(uint32_t number) = 0;
  // Waits for a copy of a few bytes, and for no kernel. An error says that nothing may have
  // changed.
  virtual CudaResult Set(uint32_t number, bool stopped) = 0;
};

// Thread-safe. `image` is a fatbin container, a cubin, or PTX text; it is not kept.
class Modules {
 public:
  static constexpr Capabilities kGives = {};

  virtual ~Modules() = default;

  virtual CudaResult LoadModule(std::string_view image, ModuleId* module) = 0;
  // Loads the module with options. Fills in `*log` whatever the result is.
  virtual CudaResult LoadModuleJit(std::string_view image, absl::Span<const JitOption> options,
                                   JitLog* log, ModuleId* module) = 0;
  // Loads what LoadModule() left for later, and returns the result that loading everything at once
  // would have had.
  virtual CudaResult CheckModule(ModuleId module) = 0;
  // `payer`, borrowed, is asked before code comes onto the device from now on, by those that know
  // how much it is before they load it. Called before anything is loaded.
  virtual void SetCodePayer(CodePayer* /*payer*/) {}
  // Waits for running kernels of the module.
  virtual CudaResult UnloadModule(ModuleId module) = 0;
  // Returns the names of the module's kernels.
  virtual CudaResult Kernels(ModuleId module, std::vector<std::string>* names) = 0;
  virtual CudaResult FindKernel(ModuleId module, const std::string& name, KernelId* kernel) = 0;
  // Whether kernels of the module leave records of what they print and why they ended, for whoever
  // loaded it to look at after they have run.
  virtual bool LeavesRecords(ModuleId) { return false; }

  // Returns the PTX version, such as 80, that kernels of the module are to show as an attribute. 0
  // says that it is the device's answer, since nobody has written the code anew.
  virtual int PtxVersion(ModuleId) { return 0; }

  // Returns the parameter that was added to all kernels that were loaded here; null for none. It
  // lives as long as this object.
  virtual const AddedParameter* added_parameter() const { return nullptr; }
  // Returns null where kernels do not ask whether to stop. It lives as long as this object.
  virtual KernelStops* kernel_stops() { return nullptr; }

  // Adds the names of the variables that kernels of the module can write, and returns true, where
  // whoever loaded it knows them all. False where they show in the image alone.
  virtual bool WritableVariables(ModuleId, std::vector<std::string>* /*names*/) { return false; }

  // Finds address and size of a `.global` or `.const` variable, managed or not. kNotFound for
  // another name.
  virtual CudaResult FindGlobal(ModuleId module, const std::string& name, uint64_t* address,
                                uint64_t* bytes) = 0;
  // Writes the first bytes of a variable, in the order of `stream`, whatever Memory::AddVariable()
  // was told. `bytes` is read at once. kInvalidValue when the variable has fewer bytes.
  virtual CudaResult WriteVariable(ModuleId module, const std::string& name, std::string_view bytes,
                                   StreamId stream) = 0;
  // Finds the block of managed variables in which `address`, from FindGlobal(), lies; `*bytes`
  // becomes 0 when the variable is not managed.
  virtual CudaResult ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) = 0;
  // Take and give back a block of kBlockBytes of the memory from which the backend cuts modules'
  // variables. Both need Capability::kVariableBlocks. A backend lacks it when its variables lie at
  // the same place in every process anyway.
  virtual CudaResult TakeBlock(uint64_t* address) = 0;
  virtual void FreeBlock(uint64_t address) = 0;

 protected:
  // For WriteVariable(): where a variable lies that has so many bytes.
  CudaResult FindRoom(ModuleId module, const std::string& name, uint64_t bytes, uint64_t* address) {
    uint64_t most = 0;
    const CudaResult found = FindGlobal(module, name, address, &most);
    if (found != CudaResult::kSuccess) return found;
    return bytes <= most ? CudaResult::kSuccess : CudaResult::kInvalidValue;
  }
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_MODULES_H_
