// The images that the operator vetted, as the server's sessions get them
// (common/vetted/program_folder.h).
#ifndef WARPLINE_SERVER_GPU_SERVER_MODULES_PROGRAM_BOOK_H_
#define WARPLINE_SERVER_GPU_SERVER_MODULES_PROGRAM_BOOK_H_

#include <sys/stat.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/crypto/content_hash.h"
#include "common/mutex.h"

namespace warpline::server {

// Thread-safe.
class ProgramBook {
 public:
  // `dir` may be empty, for no programs, and need not be there yet.
  explicit ProgramBook(std::string dir) : dir_(std::move(dir)) {}

  // Returns the images of all programs that are in the folder now. A folder that cannot be read has
  // none, and the log says why.
  std::shared_ptr<const std::set<ContentHash>> Images();

 private:
  const std::string dir_;
  Mutex mu_;
  // The folder's state when it was last read: `warpline program` renames files into it.
  timespec changed_ ABSL_GUARDED_BY(mu_) = {};
  ino_t inode_ ABSL_GUARDED_BY(mu_) = 0;
  std::shared_ptr<const std::set<ContentHash>> images_ ABSL_GUARDED_BY(mu_) =
      std::make_shared<const std::set<ContentHash>>();
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MODULES_PROGRAM_BOOK_H_
