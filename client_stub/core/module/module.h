// A module of the application, or what a library (library.h) is on one device: its image until the
// server has it, and the kernels and variables that were looked up in it.
//
// A library is sent when something of it is first looked up, a module when it is loaded. One
// look-up of a name asks the server; later ones are answered here. A library outlives the contexts
// that it is used in: after the end of the primary one it is sent again when it is next needed, and
// its variables have their first values.
#ifndef WARPLINE_CLIENT_STUB_CORE_MODULE_MODULE_H_
#define WARPLINE_CLIENT_STUB_CORE_MODULE_MODULE_H_

#include <cstdint>
#include <map>
#include <memory>
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

// What modules are made of. One that is empty is CUDA_ERROR_INVALID_IMAGE to whoever looks
// something up.
struct ModuleImage {
  std::string_view bytes;
  std::shared_ptr<const std::string> copy;  // Holds the bytes, unless the application does.
};

// Thread-safe. Owns its kernels.
class Module {
 public:
  // Of a context, or else of a library. An application's own bytes stay valid until Unload(), or,
  // with a context, until Check() returned.
  Module(Device* device, const Context* context, Library* library, ModuleImage image,
         std::string_view jit_options);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  Device* device() const { return device_; }
  const Context* context() const { return context_; }
  Library* library() const { return library_; }

  // Sends the image or its hash, if that has not been done, without waiting for what becomes of it.
  CUresult Upload();
  // Waits for what loading it ended with.
  CUresult Check();
  // What the just-in-time compiler had to say of a module that was loaded with options.
  CUresult WriteLog(JitOptions* options);

  // CUDA_ERROR_NOT_FOUND for a name that it does not have, or what loading it ended with.
  CUresult FindKernel(const std::string& name, Kernel** kernel);
  CUresult FindGlobal(const std::string& name, uint64_t* address, uint64_t* bytes);
  // Where host code finds a managed variable; CUDA_ERROR_NOT_FOUND for any other.
  CUresult FindManaged(const std::string& name, uint64_t* address, uint64_t* bytes);

  // The same as cuModuleGetGlobal: either result may be null, `name` may not.
  CUresult GetGlobal(const char* name, CUdeviceptr* address, size_t* bytes);

  // The names of its kernels.
  CUresult KernelNames(std::vector<std::string>* names);

  // The handle of one of its kernels on this device alone.
  CUfunction FunctionOf(Kernel* kernel);

  // The number of a kernel for the wire, which it may have to be found for again.
  CUresult Bind(Kernel* kernel, uint64_t* wire);

  // The handle under which the module is, or becomes, known as a CUmodule.
  CUmodule ModuleHandle();

  // Makes its handles and those of its kernels invalid. Called once.
  void Unload();
  // Of a library: what it had in the context that ends now goes. Its handle and those of its
  // kernels stay valid.
  void Reset();

 private:
  struct Global {
    uint64_t address;
    uint64_t bytes;
    uint64_t host;  // Of a managed variable; 0 for others.
  };

  // Sends the image or its hash, if that has not been done, and gives its number for the wire.
  CUresult AskForVariable(const std::string& name, cmd::VariableFindReply* found);
  CUresult FindVariable(const std::string& name, Global* variable);
  // Sends the image, if that has not been done, and gives its number for the wire.
  CUresult Upload(uint64_t* wire);
  // A round trip about the module, `make(wire)`. Where it turns out that the server does not have
  // the image that it was asked for, the image is sent and the call made again.
  template <typename Make>
  CUresult Ask(Make make, std::string_view tail = {}, std::string* reply = nullptr);
  // The server lacks the image of module `wire`: another number is for the one that is sent.
  void SendInstead(uint64_t wire);

  Device* const device_;
  const Context* const context_;
  Library* const library_;
  const std::string jit_options_;

  Mutex mu_;  // Held while the image is appended, never across a wait for an answer.
  uint64_t wire_ ABSL_GUARDED_BY(mu_);
  ModuleImage image_ ABSL_GUARDED_BY(mu_);
  bool uploaded_ ABSL_GUARDED_BY(mu_) = false;
  bool server_lacks_ ABSL_GUARDED_BY(mu_) = false;
  bool unloaded_ ABSL_GUARDED_BY(mu_) = false;
  CUmodule handle_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Global> globals_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MODULE_MODULE_H_
