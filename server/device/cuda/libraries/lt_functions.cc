#include "server/device/cuda/libraries/lt_functions.h"

#include <dlfcn.h>

namespace warpline::device::lt {
namespace {

// Written by LoadLt(), before any thread calls Lt().
Functions functions;
bool loaded = false;

template <typename F>
bool Find(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

bool LoadLt(void* library) {
  Functions& f = functions;
  loaded = Find(library, "cublasLtMatmulDescInit_internal", &f.init_description) &&
           Find(library, "cublasLtMatmulDescSetAttribute", &f.set_description) &&
           Find(library, "cublasLtMatrixLayoutInit_internal", &f.init_layout) &&
           Find(library, "cublasLtMatrixLayoutSetAttribute", &f.set_layout) &&
           Find(library, "cublasLtMatmulPreferenceInit_internal", &f.init_preference) &&
           Find(library, "cublasLtMatmulPreferenceSetAttribute", &f.set_preference) &&
           Find(library, "cublasLtMatmulAlgoGetHeuristic", &f.find) &&
           Find(library, "cublasLtMatmulAlgoGetIds", &f.get_ids) &&
           Find(library, "cublasLtMatmulAlgoInit", &f.init_algorithm) &&
           Find(library, "cublasLtMatmulAlgoCapGetAttribute", &f.get_capability) &&
           Find(library, "cublasLtMatmulAlgoConfigGetAttribute", &f.get_config) &&
           Find(library, "cublasLtMatmulAlgoConfigSetAttribute", &f.set_config) &&
           Find(library, "cublasLtMatmulAlgoCheck", &f.check) &&
           Find(library, "cublasLtMatmul", &f.multiply);
  return loaded;
}

const Functions* Lt() { return loaded ? &functions : nullptr; }

}  // namespace warpline::device::lt
