#include "server/device/cuda/libraries/lt_functions.h"

#include "server/device/cuda/libraries/cublas_status.h"

namespace warpline::device::lt {
namespace {

// Written by LoadLt(), before any thread calls Lt().
Functions functions;
bool loaded = false;

}  // namespace

bool LoadLt(void* library) {
  Functions& f = functions;
  loaded = FindFunction(library, "cublasLtMatmulDescInit_internal", &f.init_description) &&
           FindFunction(library, "cublasLtMatmulDescSetAttribute", &f.set_description) &&
           FindFunction(library, "cublasLtMatrixLayoutInit_internal", &f.init_layout) &&
           FindFunction(library, "cublasLtMatrixLayoutSetAttribute", &f.set_layout) &&
           FindFunction(library, "cublasLtMatmulPreferenceInit_internal", &f.init_preference) &&
           FindFunction(library, "cublasLtMatmulPreferenceSetAttribute", &f.set_preference) &&
           FindFunction(library, "cublasLtMatmulAlgoGetHeuristic", &f.find) &&
           FindFunction(library, "cublasLtMatmulAlgoGetIds", &f.get_ids) &&
           FindFunction(library, "cublasLtMatmulAlgoInit", &f.init_algorithm) &&
           FindFunction(library, "cublasLtMatmulAlgoCapGetAttribute", &f.get_capability) &&
           FindFunction(library, "cublasLtMatmulAlgoConfigGetAttribute", &f.get_config) &&
           FindFunction(library, "cublasLtMatmulAlgoConfigSetAttribute", &f.set_config) &&
           FindFunction(library, "cublasLtMatmulAlgoCheck", &f.check) &&
           FindFunction(library, "cublasLtMatmul", &f.multiply);
  return loaded;
}

const Functions* Lt() { return loaded ? &functions : nullptr; }

}  // namespace warpline::device::lt
