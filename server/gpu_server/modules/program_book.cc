#include "server/gpu_server/modules/program_book.h"

#include <ctime>
#include <utility>
#include <vector>

#include "common/log/log.h"
#include "common/vetted/program_folder.h"

namespace warpline::server {

std::shared_ptr<const std::set<ContentHash>> ProgramBook::Images() {
  MutexLock lock(&mu_);
  struct stat info = {};
  if (dir_.empty()) return images_;
  const bool there = stat(dir_.c_str(), &info) == 0;
  // A file that came a moment after the reading may have left the same time.
  const bool settled = time(nullptr) > changed_.tv_sec + 1;
  const bool same = there && settled && info.st_ino == inode_ &&
                    info.st_mtim.tv_sec == changed_.tv_sec &&
                    info.st_mtim.tv_nsec == changed_.tv_nsec;
  if (same) return images_;
  changed_ = info.st_mtim;
  inode_ = info.st_ino;
  std::vector<std::string> unreadable;
  const auto folder = ReadVettedFolder(dir_, &unreadable);
  for (const std::string& why : unreadable) LogWarning("a vetted program is left out: ", why);
  std::set<ContentHash> images;
  if (folder.ok()) {
    for (const auto& [name, of_program] : *folder) {
      for (const VettedImage& image : of_program) images.insert(image.hash);
    }
    LogInfo("vetted programs=", folder->size(), " images=", images.size(), " dir=", dir_);
  } else {
    LogWarning("no program is vetted: ", folder.status().message());
  }
  images_ = std::make_shared<const std::set<ContentHash>>(std::move(images));
  return images_;
}

}  // namespace warpline::server
