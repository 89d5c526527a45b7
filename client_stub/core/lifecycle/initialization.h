// cuInit, the end of the process, and the child of a fork.
#ifndef WARPLINE_CLIENT_STUB_CORE_LIFECYCLE_INITIALIZATION_H_
#define WARPLINE_CLIENT_STUB_CORE_LIFECYCLE_INITIALIZATION_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "client_stub/core/base/cuda_api.h"
#include "client_stub/session/session.h"

namespace warpline::stub {

// cuInit: opens the session. The outcome is remembered, so that only the first call waits.
CUresult InitializeDriver();

// The function with which InitializeDriver() opens a session. Replaceable before cuInit.
using SessionOpener = absl::StatusOr<std::unique_ptr<Session>> (*)(const SessionOptions& options);
void SetSessionOpener(SessionOpener opener);

// Sets the function that writes what kernels print (SessionOptions::printer). Call before cuInit.
void SetPrinter(int (*printer)(int descriptor, const char* text, size_t bytes, int wait));

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_LIFECYCLE_INITIALIZATION_H_
