// Memory behind a descriptor, whose size cannot be changed.
#ifndef WARPLINE_COMMON_SEALED_MEMORY_H_
#define WARPLINE_COMMON_SEALED_MEMORY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace warpline {

// Makes `bytes` of zeros that are sealed against growing and shrinking for good, so that no other
// process with the descriptor can make an access to a mapping of it fault. The caller owns the
// descriptor; it is closed on exec. `name` is shown in /proc. RESOURCE_EXHAUSTED, with errno's
// text, when there is no memory or descriptor for it. Thread-safe.
absl::StatusOr<UniqueFd> NewSealedMemory(const char* name, uint64_t bytes);

// Gives `bytes` of memory behind such a descriptor back to the system, whoever has it mapped; it
// holds zeros then. Pages that a driver has locked stay its own until it lets go of them.
// Thread-safe.
void EmptyMemory(int fd, uint64_t bytes);

// How many bytes there are behind such a descriptor, which may be anything else: INVALID_ARGUMENT
// for memory that could grow or shrink, or what is none. Thread-safe.
absl::StatusOr<uint64_t> SealedBytes(int fd);

}  // namespace warpline

#endif  // WARPLINE_COMMON_SEALED_MEMORY_H_
