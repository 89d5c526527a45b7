#include "common/own_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/sibling_program.h"

namespace warpline {
namespace {

// The folder of what has the code of this function.
absl::StatusOr<std::string> Folder() {
  Dl_info info;
  char path[4096];
  // A program's own name may be relative to a folder that it has left.
  if (dladdr(reinterpret_cast<const void*>(&Folder), &info) == 0 || info.dli_fname == nullptr ||
      info.dli_fname[0] != '/' || realpath(info.dli_fname, path) == nullptr) {
    return OwnFolder();
  }
  const std::string own(path);
  return own.substr(0, own.rfind('/'));
}

}  // namespace

absl::StatusOr<std::string> FindBeside(const std::string& name, const std::string& package) {
  const absl::StatusOr<std::string> folder = Folder();
  if (!folder.ok()) return folder.status();
  std::vector<std::string> places = {absl::StrCat(*folder, "/", name),
                                     absl::StrCat(*folder, "/../lib/", name),
                                     absl::StrCat(*folder, "/../lib/warpline/", name)};
  // Bazel's output folder is one of those above.
  for (std::string above = *folder; !above.empty(); above.resize(above.rfind('/'))) {
    places.push_back(absl::StrCat(above, "/", package, "/", name));
  }
  for (const std::string& place : places) {
    if (access(place.c_str(), R_OK) == 0) return place;
  }
  places.resize(3);
  return absl::NotFoundError(
      absl::StrCat(name, " is not in any of: ", absl::StrJoin(places, ", ")));
}

}  // namespace warpline
