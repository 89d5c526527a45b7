// Finds the pages of dispatch that a server under test has in this process, to write what a worker
// would.
#ifndef WARPLINE_SERVER_GPU_SERVER_TESTING_DISPATCH_PAGES_H_
#define WARPLINE_SERVER_GPU_SERVER_TESTING_DISPATCH_PAGES_H_

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "common/unique_fd.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::server {

class DispatchPages {
 public:
  // Notes the pages that exist now.
  DispatchPages() : known_(Find()) {}

  // Returns the page that came since, as its worker would have it; null for none.
  std::unique_ptr<dispatch::DispatchPage> TakeNew() {
    for (auto& [number, fd] : Find()) {
      if (!known_.contains(number)) return *dispatch::DispatchPage::Attach(std::move(fd));
    }
    return nullptr;
  }

 private:
  // Returns descriptors of all pages by their files' numbers.
  static std::map<ino_t, UniqueFd> Find() {
    std::map<ino_t, UniqueFd> pages;
    DIR* const dir = opendir("/proc/self/fd");
    while (const dirent* const entry = readdir(dir)) {
      const std::string link = std::string("/proc/self/fd/") + entry->d_name;
      char target[256] = {};
      if (readlink(link.c_str(), target, sizeof(target) - 1) < 0) continue;
      if (!absl::StrContains(target, "warpline-dispatch")) continue;
      struct stat file;
      const int fd = std::atoi(entry->d_name);
      if (fstat(fd, &file) == 0) pages[file.st_ino] = UniqueFd(dup(fd));
    }
    closedir(dir);
    return pages;
  }

  const std::map<ino_t, UniqueFd> known_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_TESTING_DISPATCH_PAGES_H_
