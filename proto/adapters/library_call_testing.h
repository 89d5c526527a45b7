// Calls of libraries' functions, found by their names, for tests.
#ifndef WARPLINE_PROTO_ADAPTERS_LIBRARY_CALL_TESTING_H_
#define WARPLINE_PROTO_ADAPTERS_LIBRARY_CALL_TESTING_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/cuda/cuda_result.h"
#include "gtest/gtest.h"
#include "proto/adapters/library_call.h"

namespace warpline {

inline const LibraryFunction& Named(std::string_view name) {
  for (const LibraryFunction& function : AllLibraryFunctions()) {
    if (function.name == name) return function;
  }
  ADD_FAILURE() << "no " << name;
  return AllLibraryFunctions()[0];
}

inline CudaResult Read(std::string_view name, const std::vector<uint64_t>& values,
                       LibraryCall* call, uint32_t modes = 0) {
  return ReadLibraryCall(Named(name), modes, values, call);
}

}  // namespace warpline

#endif  // WARPLINE_PROTO_ADAPTERS_LIBRARY_CALL_TESTING_H_
