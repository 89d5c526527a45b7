// A module or library of the application: its image until the server has it, and the kernels and
// variables that were looked up in it.
//
// A library is sent when something of it is first looked up, a module when it is loaded. One
// look-up of a name asks the server; later ones are answered here.
#ifndef WARPLINE_CLIENT_STUB_CORE_MODULE_H_
#define WARPLINE_CLIENT_STUB_CORE_MODULE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client_stub/core/cuda_api.h"
#include "client_stub/core/kernel.h"
#include "client_stub/core/objects.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe. Owns its kernels.
class Module {
 public:
  // `image` stays the application's and valid until Unload() when `preserved`; otherwise it is
  // copied. One that is empty is CUDA_ERROR_INVALID_IMAGE to whoever looks something up.
  Module(const Context* context, std::string_view image, bool preserved);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const Context* context() const { return context_; }

  // Sends the image, if that has not been done, without waiting for what becomes of it.
  CUresult Upload();
  // Waits for what loading it ended with.
  CUresult Check();

  // CUDA_ERROR_NOT_FOUND for a name that it does not have, or what loading it ended with.
  CUresult FindKernel(const std::string& name, CUkernel* kernel);
  CUresult FindGlobal(const std::string& name, uint64_t* address, uint64_t* bytes);

  // The handle under which the module is, or becomes, known as a CUmodule.
  CUmodule ModuleHandle();

  // Makes its handles and those of its kernels invalid. Called once.
  void Unload();

 private:
  struct Global {
    uint64_t address;
    uint64_t bytes;
  };

  const Context* const context_;
  const uint64_t wire_;

  Mutex mu_;  // Held while the image is appended, never across a wait for an answer.
  std::string copy_ ABSL_GUARDED_BY(mu_);
  std::string_view image_ ABSL_GUARDED_BY(mu_);
  bool uploaded_ ABSL_GUARDED_BY(mu_) = false;
  bool unloaded_ ABSL_GUARDED_BY(mu_) = false;
  CUmodule handle_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Global> globals_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MODULE_H_
