// What the server answered to a bulk connection's request for host memory.
#ifndef WARPLINE_CLIENT_STUB_SESSION_BULK_MEMORY_ANSWER_H_
#define WARPLINE_CLIENT_STUB_SESSION_BULK_MEMORY_ANSWER_H_

#include <string>

#include "absl/status/status.h"

namespace warpline::stub {

// OK when it gave it, with its reason RESOURCE_EXHAUSTED when it has none and UNAVAILABLE when it
// has none at the moment, INVALID_ARGUMENT for what is no answer.
absl::Status MemoryAnswered(const std::string& payload);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_BULK_MEMORY_ANSWER_H_
