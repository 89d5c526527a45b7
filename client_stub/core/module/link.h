// One run of the linker, from cuLinkCreate to cuLinkDestroy.
//
// The server's linker works as inputs come, so that each call has the result that CUDA gives. The
// inputs are kept here too: a worker that took over from another does not know the link, and gets
// them again.
#ifndef WARPLINE_CLIENT_STUB_CORE_MODULE_LINK_H_
#define WARPLINE_CLIENT_STUB_CORE_MODULE_LINK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/module/jit_options.h"
#include "client_stub/core/runtime/device.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe. Links for one device. The arrays of its options stay the caller's, as in CUDA.
class Link {
 public:
  Link(const Device& device, const JitOptions& options) : device_(device), options_(options) {}
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Begins the link. Called once, before all else.
  CUresult Create();
  // Adds an input. `options` are in their form for the wire.
  CUresult Add(CUjitInputType type, std::string_view data, std::string_view name,
               std::string_view options);
  // Completes the link. `*code` stays valid until the link's end, or another Complete().
  CUresult Complete(std::string_view* code);

 private:
  struct Input {
    CUjitInputType type;
    std::string data;
    std::string name;
    std::string options;
  };

  CUresult Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CUresult Send(const Input& input) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sends everything again, to a worker that does not know the link.
  CUresult Repeat() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CUresult Fetch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteLog() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Device& device_;

  Mutex mu_;
  JitOptions options_ ABSL_GUARDED_BY(mu_);
  uint64_t wire_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Input> inputs_ ABSL_GUARDED_BY(mu_);
  std::string code_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MODULE_LINK_H_
