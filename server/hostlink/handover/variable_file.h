// What kernels wrote to a session's module variables, on its way from one worker to the next in
// shared memory that the server made.
//
// The server only carries it. The worker that reads it treats it as hostile.
#ifndef WARPLINE_SERVER_HOSTLINK_HANDOVER_VARIABLE_FILE_H_
#define WARPLINE_SERVER_HOSTLINK_HANDOVER_VARIABLE_FILE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace warpline {

// Layout: VariableFileHead, then for each variable a SavedVariable, its name and its contents; the
// next one starts at a multiple of 8.
inline constexpr uint64_t kVariableFileMagic = 0x31737261764c5721;
// The file is sparse, and exists only while a worker is replaced.
inline constexpr uint64_t kVariableFileBytes = 1ull << 30;

struct VariableFileHead {
  uint64_t magic = kVariableFileMagic;
  uint64_t count = 0;
};

struct SavedVariable {
  uint64_t module = 0;  // The client's handle.
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t name_bytes = 0;
};

// Makes an empty file whose size cannot be changed. RESOURCE_EXHAUSTED when the system has no
// descriptors or memory left.
absl::StatusOr<UniqueFd> CreateVariableFile();

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_HANDOVER_VARIABLE_FILE_H_
