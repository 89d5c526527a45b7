// A module of the application, or a library's (library.h) module on one device: its image until the
// server has it, and the kernels and variables that were looked up in it.
//
// A library is sent when part of it is first looked up, a module when it is loaded. The first
// look-up of a name asks the server; later ones are answered here. A library outlives the contexts
// that it is used in: after the end of the primary one it is sent again when it is next needed, and
// its variables then have their first values.
#ifndef WARPLINE_CLIENT_STUB_CORE_MODULE_MODULE_H_
#define WARPLINE_CLIENT_STUB_CORE_MODULE_MODULE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/module/jit_options.h"
#include "client_stub/core/module/kernel.h"
#include "client_stub/core/runtime/objects.h"
#include "common/mutex.h"
#include "proto/commands.h"

namespace warpline::stub {

// The code that a module is made of. Looking something up in an empty one is
// CUDA_ERROR_INVALID_IMAGE.
struct ModuleImage {
  std::string_view bytes;
  std::shared_ptr<const std::string> copy;  // Owns the bytes, unless the application does.
};

// Thread-safe. Owns its kernels.
class Module {
 public:
  // Makes a context's module, or else a library's. The application's own bytes must stay valid
  // until Unload() or, with a context, until Check() has returned.
  Module(Device* device, const Context* context, Library* library, ModuleImage image,
         std::string_view jit_options);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  Device* device() const { return device_; }
  const Context* context() const { return context_; }
  Library* library() const { return library_; }

  // Sends the image or its hash, if that has not been done, without waiting for the outcome of
  // loading it.
  CUresult Upload();
  // Waits for the outcome of loading the module.
  CUresult Check();
  // Writes the log of the just-in-time compiler for a module that was loaded with options.
  CUresult WriteLog(JitOptions* options);

  // CUDA_ERROR_NOT_FOUND for a name that the module does not have, or the error with which loading
  // it ended.
  CUresult FindKernel(const std::string& name, Kernel** kernel);
  CUresult FindGlobal(const std::string& name, uint64_t* address, uint64_t* bytes);
  // Finds the host's address of a managed variable; CUDA_ERROR_NOT_FOUND for any other.
  CUresult FindManaged(const std::string& name, uint64_t* address, uint64_t* bytes);

  // Works like cuModuleGetGlobal: either result may be null, `name` may not.
  CUresult GetGlobal(const char* name, CUdeviceptr* address, size_t* bytes);

  // Lists the names of its kernels.
  CUresult KernelNames(std::vector<std::string>* names);

  // Returns the handle of one of its kernels, for this device alone.
  CUfunction FunctionOf(Kernel* kernel);

  // Gives the number of a kernel for the wire; looks the kernel up again where that is necessary.
  CUresult Bind(Kernel* kernel, uint64_t* wire);

  // Returns the CUmodule of this module, and makes it at the first call.
  CUmodule ModuleHandle();

  // Makes its handles and those of its kernels invalid. Called once.
  void Unload();
  // For a library's module: drops what it has in the context that ends now. Its CUmodule becomes
  // invalid; the handles of its kernels stay valid, and so do the addresses of managed variables,
  // which have their first values once it is loaded again.
  void Reset();

 private:
  struct Global {
    uint64_t address;
    uint64_t bytes;
    uint64_t host;  // The host's address of a managed variable; 0 for others.
  };

  // Asks the server for a variable.
  CUresult AskForVariable(const std::string& name, cmd::VariableFindReply* found);
  // Finds a variable; with `wanted`, the host had a managed one there before.
  CUresult FindVariable(const std::string& name, uint64_t wanted, Global* variable);
  // Finds the managed variables again that it had before a reset, at the host's addresses of then.
  void FindLost(const std::map<std::string, uint64_t>& lost);
  // Sends the image or its hash, if that has not been done, and gives the module's number for the
  // wire.
  CUresult Upload(uint64_t* wire);
  // Does so without finding what a reset has lost, but gives the list of it.
  CUresult Upload(uint64_t* wire, std::map<std::string, uint64_t>* lost);
  // Makes a round trip about the module with the command `make(wire)`. Where the server turns out
  // not to have the image that was named by its hash, sends the image and makes the call again.
  template <typename Make>
  CUresult Ask(Make make, std::string_view tail = {}, std::string* reply = nullptr);
  // Has the tier's watch, if there is one, judge the outcome of a call about the module or what it
  // names. Without one, logs that the module has no code for the device.
  void TellWatch(CudaResult result, std::string_view name);
  // Called when the server lacks the image of module `wire`: gives the module another number, under
  // which the image itself is sent next.
  void SendInstead(uint64_t wire);
  // Called when the device does not run the machine code of module `wire`: does so with the PTX
  // that the code was compiled from. Returns false where that is not known.
  bool SendPtxInstead(uint64_t wire);
  // Returns whether PTX stands in for the application's machine code.
  bool StandsIn();
  // Returns whether the module has another number than `wire` by now.
  bool HasMovedOn(uint64_t wire);
  // Gives the module another number, under which the image is sent next.
  void BeginAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Device* const device_;
  const Context* const context_;
  Library* const library_;
  const std::string jit_options_;

  Mutex mu_;  // Held while the image is appended, never across a wait for an answer.
  uint64_t wire_ ABSL_GUARDED_BY(mu_);
  ModuleImage image_ ABSL_GUARDED_BY(mu_);
  bool uploaded_ ABSL_GUARDED_BY(mu_) = false;
  bool server_lacks_ ABSL_GUARDED_BY(mu_) = false;
  bool stands_in_ ABSL_GUARDED_BY(mu_) = false;
  bool unloaded_ ABSL_GUARDED_BY(mu_) = false;
  CUmodule handle_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Global> globals_ ABSL_GUARDED_BY(mu_);
  // Managed variables that it had before a reset, which the program may go on using without asking
  // for them again: their addresses on the host.
  std::map<std::string, uint64_t> lost_ ABSL_GUARDED_BY(mu_);
  // The variables that the program has called managed. Others may lie in one block with them.
  std::set<std::string> managed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MODULE_MODULE_H_
