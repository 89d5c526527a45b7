// The handles of modules and libraries.
//
// The memory of an unloaded module is kept until many others have been unloaded, so that another
// thread that is in a call with one of its kernels still finds it.
#ifndef WARPLINE_CLIENT_STUB_CORE_MODULE_MODULES_H_
#define WARPLINE_CLIENT_STUB_CORE_MODULE_MODULES_H_

#include <string_view>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/module/library.h"
#include "client_stub/core/module/module.h"

namespace warpline::stub {

// Both return nullptr for a handle that names none.
Module* FindModule(CUmodule handle);
Library* FindLibrary(CUlibrary handle);

// Loads a module and waits for the outcome.
CUresult AddModule(const Context* context, std::string_view image, JitOptions* options,
                   CUmodule* module);
// Makes a library known. Nothing is sent yet, unless `options` ask for a log. With `preserved` the
// bytes stay the application's and valid until the library is unloaded; otherwise they are copied.
CUresult AddLibrary(std::string_view image, bool preserved, JitOptions* options,
                    CUlibrary* library);

CUresult RemoveModule(CUmodule handle);
CUresult RemoveLibrary(CUlibrary handle);
// Unloads the modules of a context; libraries belong to none.
void UnloadModulesOf(const Context* context);
// Calls Library::Reset() of every library.
void ResetLibraries(const Device& device);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MODULE_MODULES_H_
