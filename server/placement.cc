#include "server/placement.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

constexpr size_t kMaxNameInError = 64;

}  // namespace

std::string FormatDeviceUuid(const std::string& uuid) {
  const std::string hex = absl::BytesToHexString(uuid);
  if (hex.size() != 32) return "GPU-unknown";
  return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-",
                      hex.substr(16, 4), "-", hex.substr(20));
}

absl::StatusOr<size_t> PlaceSession(const std::vector<PlacementCandidate>& devices,
                                    const std::string& wanted) {
  if (devices.empty()) return absl::NotFoundError("the server has no device");
  if (wanted.empty()) {
    const auto least =
        std::min_element(devices.begin(), devices.end(),
                         [](const PlacementCandidate& a, const PlacementCandidate& b) {
                           return a.sessions < b.sessions;
                         });
    return static_cast<size_t>(least - devices.begin());
  }
  const std::string shown = absl::CHexEscape(wanted.substr(0, kMaxNameInError));
  if (absl::StartsWith(wanted, "GPU-")) {
    const std::string lower = absl::StrCat("GPU-", absl::AsciiStrToLower(wanted.substr(4)));
    for (size_t i = 0; i < devices.size(); ++i) {
      if (FormatDeviceUuid(devices[i].uuid) == lower) return i;
    }
    return absl::NotFoundError(absl::StrCat("the server has no device ", shown));
  }
  uint32_t ordinal;
  if (!absl::SimpleAtoi(wanted, &ordinal)) {
    return absl::InvalidArgumentError(
        absl::StrCat("device \"", shown, "\": expected an ordinal or GPU-<uuid>"));
  }
  if (ordinal >= devices.size()) {
    return absl::NotFoundError(
        absl::StrCat("device ", ordinal, ": the server has ", devices.size()));
  }
  return ordinal;
}

}  // namespace warpline
