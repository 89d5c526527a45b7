// The folder in which sessions outlive their server.
//
// A server that ends writes each session that it can into a folder of its own, and a server that
// starts with the same folder takes them over. Nothing of a session exists twice: the server that
// wrote it has ended it, and the server that takes it over has removed it from the folder before
// the client can reach it.
//
//   DIR/lock                 held by the server that uses the folder
//   DIR/host.name            a name that all its servers use, such as that of a socket
//   DIR/session-7            the session (session_folder.h)
//   DIR/partial-7, DIR/taken-7   while they are written, and while they are taken over
#ifndef WARPLINE_SERVER_GPU_SERVER_SAVED_SAVED_SESSIONS_H_
#define WARPLINE_SERVER_GPU_SERVER_SAVED_SAVED_SESSIONS_H_

#include <cstdint>
#include <map>
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
class SavedSessions {
 public:
  // `dir` is made if it is not there, for this user alone. `space` is borrowed; null where no
  // memory is moved. NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE when the folder cannot be used,
  // FAILED_PRECONDITION while another server uses it, or when others may write to it.
  static absl::StatusOr<std::unique_ptr<SavedSessions>> Open(std::string dir, SwapSpace* space);

  // Returns a name that stays while the folder is there: `made` when it is asked for the first
  // time. `what` says what it is the name of. Names have letters, digits and hyphens.
  std::string NameOf(const std::string& what, const std::string& made) const;

  // Returns the sessions in the folder, with their secrets. Those whose manifest cannot be read are
  // left out, and told in `*unreadable`.
  std::map<uint64_t, std::string> Find(std::vector<std::string>* unreadable) const;
  // Returns the greatest number that a session's folder has, readable or not; 0 for none.
  uint64_t LastNumber() const;

  // Writes a session, and returns when the disk has it. Fills the files of `cut->manifest`. Nothing
  // is left of it after an error: RESOURCE_EXHAUSTED when the disk is full, UNAVAILABLE otherwise.
  absl::Status Write(SessionCut* cut);

  // Reads a session, and takes host memory for it. DATA_LOSS when the files are not those that were
  // written, INVALID_ARGUMENT for what no server would write, FAILED_PRECONDITION for another
  // format, RESOURCE_EXHAUSTED when there is too little host memory.
  absl::StatusOr<SessionCut> Read(uint64_t session) const;

  // Removes a session that was read, so that no other server takes it over. It can be put back
  // until it is forgotten.
  absl::Status Take(uint64_t session);
  absl::Status PutBack(uint64_t session);
  void Forget(uint64_t session);

 private:
  SavedSessions(std::string dir, SwapSpace* space, UniqueFd lock)
      : dir_(std::move(dir)), space_(space), lock_(std::move(lock)) {}

  std::string FolderOf(const char* state, uint64_t session) const;
  absl::StatusOr<warpline_internal::SavedSession> ManifestOf(uint64_t session) const;

  const std::string dir_;
  SwapSpace* const space_;
  const UniqueFd lock_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SAVED_SAVED_SESSIONS_H_
