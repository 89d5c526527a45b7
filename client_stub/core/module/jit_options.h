// The options of the just-in-time compiler that cuModuleLoadDataEx and cuLibraryLoadData take.
#ifndef WARPLINE_CLIENT_STUB_CORE_MODULE_JIT_OPTIONS_H_
#define WARPLINE_CLIENT_STUB_CORE_MODULE_JIT_OPTIONS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "client_stub/core/base/cuda_api.h"

namespace warpline::stub {

// Refers to the caller's arrays: use it only within the call.
class JitOptions {
 public:
  // CUDA_ERROR_INVALID_VALUE for an option that CUDA does not know, CUDA_ERROR_NOT_SUPPORTED for
  // options that hand addresses to the linker. Options for link-time optimization have no effect,
  // as in CUDA.
  CUresult Read(unsigned int count, CUjit_option* options, void** values);

  // The options that are sent with the image; empty when the compiler is to use its defaults.
  const std::string& wire() const { return wire_; }
  // Whether the caller wants the compiler's log.
  bool wants_log() const { return wants_log_; }

  // Fills in the caller's buffers and the sizes of what was written to them.
  void WriteLog(float wall_ms, std::string_view info, std::string_view errors);

 private:
  struct Buffer {
    char* text = nullptr;
    size_t bytes = 0;
    void** size = nullptr;

    void Write(std::string_view what);
  };

  std::string wire_;
  bool wants_log_ = false;
  Buffer info_;
  Buffer errors_;
  void** wall_time_ = nullptr;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MODULE_JIT_OPTIONS_H_
