#include "transport/ucx/ucx_address.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

constexpr absl::string_view kScheme = "ucx://";
// That of a worker with all interfaces of a large host is far shorter.
constexpr size_t kMaxWorkerHex = 8192;

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
}

}  // namespace

std::string UcxAddress::ToString() const {
  return absl::StrCat(kScheme, ip, "/", absl::BytesToHexString(worker));
}

absl::StatusOr<UcxAddress> UcxAddress::Parse(absl::string_view address) {
  absl::string_view rest = address;
  if (absl::StartsWith(rest, kScheme)) rest.remove_prefix(kScheme.size());
  const size_t slash = rest.find('/');
  const absl::string_view hex =
      slash == absl::string_view::npos ? absl::string_view() : rest.substr(slash + 1);
  if (rest.size() == address.size() || slash == 0 || hex.empty() || hex.size() % 2 != 0 ||
      hex.size() > kMaxWorkerHex || !IsHex(hex)) {
    return absl::InvalidArgumentError("no address of a UCX relay");
  }
  return UcxAddress{std::string(rest.substr(0, slash)), absl::HexStringToBytes(hex)};
}

}  // namespace warpline
