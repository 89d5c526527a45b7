#include "transport/shm/shm_address.h"

#include <sys/un.h>

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

constexpr absl::string_view kPrefix = "shm://";
// A zero byte stands before an abstract name.
constexpr size_t kMaxName = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace

absl::StatusOr<absl::string_view> ShmName(absl::string_view address) {
  const absl::string_view name =
      address.substr(0, kPrefix.size()) == kPrefix ? address.substr(kPrefix.size()) : "";
  if (name.empty() || name.size() > kMaxName) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", address, "\" is not shm://NAME with a name of at most ", kMaxName, " characters"));
  }
  return name;
}

}  // namespace warpline
