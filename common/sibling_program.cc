#include "common/sibling_program.h"

#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace warpline {

absl::StatusOr<std::string> OwnFolder() {
  char buffer[4096];
  const ssize_t n = readlink("/proc/self/exe", buffer, sizeof(buffer) - 1);
  if (n <= 0) return absl::InternalError("cannot read /proc/self/exe");
  const std::string self(buffer, static_cast<size_t>(n));
  return self.substr(0, self.rfind('/'));
}

absl::StatusOr<std::string> FindSibling(const std::string& name, const std::string& folder) {
  const absl::StatusOr<std::string> own = OwnFolder();
  if (!own.ok()) return own.status();
  const std::string& dir = *own;
  const std::string beneath = folder.empty() ? "" : absl::StrCat(folder, "/");
  const std::vector<std::string> places = {
      absl::StrCat(dir, "/", name),
      absl::StrCat(dir, "/", beneath, name),
      absl::StrCat(dir, "/../server/", beneath, name),
      absl::StrCat(dir, "/../../server/", beneath, name),
  };
  for (const std::string& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  return absl::NotFoundError(
      absl::StrCat(name, " is not in any of: ", absl::StrJoin(places, ", ")));
}

}  // namespace warpline
