// Answers `warpline trace`.
#ifndef WARPLINE_SERVER_GPU_SERVER_ADMIN_TRACE_METHOD_H_
#define WARPLINE_SERVER_GPU_SERVER_ADMIN_TRACE_METHOD_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/gpu_server/dispatch/dispatcher.h"

namespace warpline::server {

inline constexpr char kTraceMethod[] = "/warpline_internal.Admin/Trace";

// A serialized TraceReply to a serialized TraceRequest: for the operator, since it names tenants.
// Without a dispatcher, FAILED_PRECONDITION: dispatch is off. INVALID_ARGUMENT for what is no
// request. Thread-safe.
absl::StatusOr<std::string> AnswerTrace(dispatch::Dispatcher* dispatcher,
                                        const std::string& request);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_ADMIN_TRACE_METHOD_H_
