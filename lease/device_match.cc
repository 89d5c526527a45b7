#include "lease/device_match.h"

#include "absl/strings/match.h"

namespace warpline {
namespace {

constexpr size_t kPrefixBytes = 4;

}  // namespace

bool IsUuidName(absl::string_view name) {
  return name.size() > kPrefixBytes &&
         (absl::StartsWith(name, "GPU-") || absl::StartsWith(name, "MIG-"));
}

std::optional<size_t> FindByUuidName(const std::vector<std::string>& uuids,
                                     absl::string_view name) {
  if (!IsUuidName(name)) return std::nullopt;
  const absl::string_view digits = name.substr(kPrefixBytes);
  std::optional<size_t> found;
  for (size_t i = 0; i < uuids.size(); ++i) {
    const absl::string_view uuid = uuids[i];
    if (uuid.size() < kPrefixBytes) continue;
    if (!absl::StartsWithIgnoreCase(uuid.substr(kPrefixBytes), digits)) continue;
    if (uuid.size() == name.size()) return i;
    if (found.has_value()) {
      // A later one may still be the very name.
      found = uuids.size();
    } else {
      found = i;
    }
  }
  return found == uuids.size() ? std::nullopt : found;
}

}  // namespace warpline
