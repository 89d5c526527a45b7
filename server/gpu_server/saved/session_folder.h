// The folder that has one session at rest:
//
//   manifest     SavedSession (proto/saved_session.proto)
//   journal ...  a file for each part of its state (session_parts.h)
//   memory-1 ... its device memory (memory_blocks.h)
//
// Its contents are treated as hostile: rights and quotas come from the lease, never from here.
#ifndef WARPLINE_SERVER_GPU_SERVER_SAVED_SESSION_FOLDER_H_
#define WARPLINE_SERVER_GPU_SERVER_SAVED_SESSION_FOLDER_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "proto/saved_session.pb.h"
#include "server/gpu_server/memory/swap_space.h"
#include "server/gpu_server/saved/session_parts.h"

namespace warpline::server {

// Locks the folder for this process, which makes it, for this user alone, if it is not there.
// Returns the lock. NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE when the folder cannot be used,
// FAILED_PRECONDITION while another process uses it, or when others may write to it.
absl::StatusOr<UniqueFd> LockFolder(const std::string& dir);
// Returns once the disk has the names in the folder.
absl::Status SyncFolder(const std::string& path);

// Writes a session into a folder that is not there yet, and returns how many bytes of its memory
// were written once the disk has it. Parts of the memory that the folder `former` has are taken
// from there; empty for none. Completes the manifest. `space` has the cut's memory; null where it
// has none. `done`, if given, counts the bytes of memory that are there already. Nothing is left
// after an error: RESOURCE_EXHAUSTED when the disk is full, NOT_FOUND, PERMISSION_DENIED,
// UNAVAILABLE.
absl::StatusOr<uint64_t> WriteSession(const std::string& folder, const std::string& former,
                                      const SwapSpace* space, SessionCut* cut,
                                      std::atomic<uint64_t>* done = nullptr);
// Reads its manifest. INVALID_ARGUMENT for what no server would write, FAILED_PRECONDITION for
// another format; otherwise as above.
absl::StatusOr<warpline_internal::SavedSession> ReadManifest(const std::string& folder);
// Reads the session of this manifest, and takes host memory of `space` for it, which may be null
// where nothing is moved. `done` as above. DATA_LOSS when the files are not those that were
// written, RESOURCE_EXHAUSTED when there is too little host memory; otherwise as ReadManifest().
absl::StatusOr<SessionCut> ReadSession(const std::string& folder,
                                       warpline_internal::SavedSession manifest, SwapSpace* space,
                                       std::atomic<uint64_t>* done = nullptr);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SAVED_SESSION_FOLDER_H_
