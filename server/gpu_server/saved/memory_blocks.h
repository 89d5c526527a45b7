// The device memory of a session in its folder: the parts that are not zeros, of
// SwapSpace::kGranule each, in files memory-1, memory-2 and so on. The manifest says where each
// part is, and has its SHA-256.
//
// A session that is written again into the place of a former folder writes only the parts that the
// former one does not have. The files with the others are linked into the new folder, which needs
// the former one no longer. Parts that no manifest needs any more stay in such files. Once they are
// more than the others, everything is written anew.
//
// Several threads hash, read and write.
#ifndef WARPLINE_SERVER_GPU_SERVER_SAVED_MEMORY_BLOCKS_H_
#define WARPLINE_SERVER_GPU_SERVER_SAVED_MEMORY_BLOCKS_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/saved_session.pb.h"
#include "server/gpu_server/memory/away_memory.h"
#include "server/gpu_server/memory/swap_space.h"

namespace warpline::server {

// A folder that has an earlier state of the session.
struct FormerBlocks {
  std::string folder;
  warpline_internal::SavedSession manifest;
};

// Writes the memory into the folder, and says in the manifest where it is. `former` is null for
// none. `done`, if given, counts the bytes of memory that are there already. Returns the bytes that
// were written, once the disk has them. Errors are FileError()'s.
absl::StatusOr<uint64_t> WriteBlocks(const std::string& folder, const FormerBlocks* former,
                                     const AwayMemory& away, const SwapSpace& space,
                                     warpline_internal::SavedSession* manifest,
                                     std::atomic<uint64_t>* done = nullptr);

// Fills `away`, which has the size that the manifest says, from the folder. DATA_LOSS when a part
// is not what was written, INVALID_ARGUMENT for what no server writes; otherwise FileError()'s.
absl::Status ReadBlocks(const std::string& folder, const warpline_internal::SavedSession& manifest,
                        const AwayMemory& away, const SwapSpace& space,
                        std::atomic<uint64_t>* done = nullptr);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SAVED_MEMORY_BLOCKS_H_
