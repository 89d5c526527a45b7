// The folder in which a server's MPS groups have theirs.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_MPS_GROUPS_MPS_FOLDER_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_MPS_GROUPS_MPS_FOLDER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace warpline::server {

// Removed when it is destroyed. One that was left by a server that was killed is removed by the
// next that takes one in the same place: a server holds a lock on its folder for as long as it
// lives.
class MpsFolder {
 public:
  // Makes a folder in `place`, or, if that is empty, in $RUNTIME_DIRECTORY or /tmp. Others may pass
  // through it, and not list it. The errors of the file system; INVALID_ARGUMENT for a place whose
  // name is too long for the sockets in it.
  static absl::StatusOr<std::unique_ptr<MpsFolder>> Make(std::string place);
  ~MpsFolder();
  MpsFolder(const MpsFolder&) = delete;
  MpsFolder& operator=(const MpsFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  MpsFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  const std::string path_;
  const UniqueFd lock_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_MPS_GROUPS_MPS_FOLDER_H_
