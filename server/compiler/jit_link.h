// NVIDIA's libnvJitLink, loaded at run time where there is one: compiles PTX to machine code
// without a device. https://docs.nvidia.com/cuda/nvjitlink/
#ifndef WARPLINE_SERVER_COMPILER_JIT_LINK_H_
#define WARPLINE_SERVER_COMPILER_JIT_LINK_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace warpline::compiler {

// Used by one thread. Never unloaded: it would not come back in a jail. Starts no threads.
class JitLink {
 public:
  // The library at `path`; for an empty one, the first that is found where the system looks for
  // libraries and where NVIDIA's toolkit puts it. NOT_FOUND says what was tried.
  static absl::StatusOr<JitLink> Load(const std::string& path);

  // Machine code for a device of compute capability `sm`, such as 90. INVALID_ARGUMENT, with what
  // the library says, for text that it does not take.
  absl::StatusOr<std::string> Compile(std::string_view ptx, int sm) const;

  // Such as "13.0".
  const std::string& version() const { return version_; }

 private:
  using Handle = void*;
  struct Functions {
    int (*create)(Handle*, unsigned, const char**) = nullptr;
    int (*destroy)(Handle*) = nullptr;
    int (*add)(Handle, int, const void*, size_t, const char*) = nullptr;
    int (*complete)(Handle) = nullptr;
    int (*cubin_size)(Handle, size_t*) = nullptr;
    int (*cubin)(Handle, void*) = nullptr;
    int (*log_size)(Handle, size_t*) = nullptr;
    int (*log)(Handle, char*) = nullptr;
    int (*version)(unsigned*, unsigned*) = nullptr;
  };
  JitLink() = default;
  // Null, with why in `*tried`, if it is not there or not what it should be.
  static void* Open(const std::string& name, Functions* functions, std::string* tried);
  std::string ErrorOf(Handle handle) const;

  Functions functions_;
  std::string version_;
};

}  // namespace warpline::compiler

#endif  // WARPLINE_SERVER_COMPILER_JIT_LINK_H_
