#include "transport/shm/shm_address.h"

#include <sys/un.h>

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

constexpr absl::string_view kPrefix = "shm://";
// A zero byte stands before an abstract name.
constexpr size_t kMaxName = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace

std::vector<std::string> ShmAddressesAt(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return {};
  const absl::string_view host = address.substr(0, colon);
  const absl::string_view port = address.substr(colon);
  const auto at = [port](absl::string_view ip) {
    return absl::StrCat(kPrefix, "warpline@", ip, port);
  };
  if (host == "localhost") return {at("127.0.0.1"), at("[::1]")};
  if (host == "[::1]" || absl::StartsWith(host, "127.")) return {at(host)};
  return {};
}

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
