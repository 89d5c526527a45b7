// How a bulk connection asks for the host memory of its slot, and what the server answers.
#ifndef WARPLINE_CLIENT_STUB_SESSION_BULK_SLOT_MEMORY_H_
#define WARPLINE_CLIENT_STUB_SESSION_BULK_SLOT_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace warpline::stub {

// A worker that is being replaced takes so long to have the memory.
inline constexpr absl::Duration kMemoryPatience = absl::Seconds(90);

// The payload of kBulkMemory for the slot whose memory lies at `va`.
std::string MemoryRequest(uint64_t va);

// OK when it gave it, with its reason RESOURCE_EXHAUSTED when it has none and UNAVAILABLE when it
// has none at the moment, INVALID_ARGUMENT for what is no answer.
absl::Status MemoryAnswered(const std::string& payload);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_BULK_SLOT_MEMORY_H_
