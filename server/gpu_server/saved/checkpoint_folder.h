// A folder with a checkpoint: sessions as they were at one moment, which any server with their
// lease may go on with. A later checkpoint takes its place as a whole.
//
//   DIR/lock                     held by the server that uses the folder
//   DIR/sessions/session-0 ...   the checkpoint (session_folder.h)
//   DIR/next, DIR/former         while another one is written, and while it takes its place
#ifndef WARPLINE_SERVER_GPU_SERVER_SAVED_CHECKPOINT_FOLDER_H_
#define WARPLINE_SERVER_GPU_SERVER_SAVED_CHECKPOINT_FOLDER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "proto/saved_session.pb.h"
#include "server/gpu_server/memory/swap_space.h"
#include "server/gpu_server/saved/session_parts.h"

namespace warpline::server {

// Not thread-safe: one thread at a time. All calls block on the disk. Errors name the file.
class CheckpointFolder {
 public:
  // `dir` is made for this user alone where it is not there and `makes` is set. `space` is
  // borrowed; null where no memory is moved. Errors are LockFolder()'s; NOT_FOUND.
  static absl::StatusOr<std::unique_ptr<CheckpointFolder>> Open(std::string dir, bool makes,
                                                                SwapSpace* space);

  // Writes the sessions, and returns how many bytes of their memory were written, once the disk has
  // them: memory that the checkpoint before has is not written again. That one stays after an
  // error. Completes their manifests. `done`, if given, counts the bytes that are there already.
  // Errors are WriteSession()'s.
  absl::StatusOr<uint64_t> Write(std::vector<SessionCut>* cuts,
                                 std::atomic<uint64_t>* done = nullptr);

  // Returns the manifests of the sessions. NOT_FOUND where there is no checkpoint, otherwise
  // ReadManifest()'s errors.
  absl::StatusOr<std::vector<warpline_internal::SavedSession>> Manifests() const;
  // Reads the sessions of Manifests(), and counts the bytes of their memory. Errors are
  // ReadSession()'s.
  absl::StatusOr<std::vector<SessionCut>> Read(
      std::vector<warpline_internal::SavedSession> manifests,
      std::atomic<uint64_t>* done = nullptr) const;

 private:
  CheckpointFolder(std::string dir, SwapSpace* space, UniqueFd lock)
      : dir_(std::move(dir)), space_(space), lock_(std::move(lock)) {}

  std::string Path(const char* name) const;
  absl::StatusOr<std::vector<std::string>> Folders() const;
  absl::StatusOr<uint64_t> WriteNext(std::vector<SessionCut>* cuts, std::atomic<uint64_t>* done);
  absl::Status Swap();

  const std::string dir_;
  SwapSpace* const space_;
  const UniqueFd lock_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SAVED_CHECKPOINT_FOLDER_H_
