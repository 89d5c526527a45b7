#include "common/cuda/visible_devices.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace warpline {
namespace {

constexpr absl::string_view kUuidPrefixes[] = {"GPU-", "MIG-"};
constexpr size_t kUuidDigits = 36;  // With the dashes between them.

// The prefix of a UUID; empty for what can only be an ordinal.
absl::string_view KindOf(absl::string_view entry) {
  for (const absl::string_view prefix : kUuidPrefixes) {
    if (absl::StartsWith(entry, prefix)) return prefix;
  }
  return "";
}

// The entry as servers take it; none when it names no device.
std::optional<std::string> NameOf(absl::string_view entry, absl::string_view kind) {
  if (KindOf(entry) != kind) return std::nullopt;
  if (!kind.empty()) {
    if (entry == kind) return std::nullopt;
    const absl::string_view digits = entry.substr(kind.size(), kUuidDigits);
    return absl::StrCat(kind, absl::AsciiStrToLower(digits));
  }
  absl::ConsumePrefix(&entry, "+");
  const auto end = std::find_if_not(entry.begin(), entry.end(), absl::ascii_isdigit);
  uint32_t ordinal;
  if (!absl::SimpleAtoi(entry.substr(0, static_cast<size_t>(end - entry.begin())), &ordinal)) {
    return std::nullopt;
  }
  return absl::StrCat(ordinal);
}

}  // namespace

VisibleDevices ParseVisibleDevices(const char* value, size_t most) {
  VisibleDevices visible;
  if (value == nullptr) return visible;
  std::vector<std::string> named;
  const absl::string_view kind = KindOf(value);
  for (const absl::string_view entry : absl::StrSplit(value, ',')) {
    auto name = NameOf(absl::StripAsciiWhitespace(entry), kind);
    if (!name.has_value()) break;
    if (std::find(named.begin(), named.end(), *name) != named.end()) {
      visible.none = true;
      return visible;
    }
    named.push_back(*std::move(name));
  }
  visible.none = named.empty();
  if (named.size() > most) named.resize(most);
  visible.device = absl::StrJoin(named, ",");
  return visible;
}

}  // namespace warpline
