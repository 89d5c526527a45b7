#include "lease/entitlement.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace warpline {

std::vector<std::string> ParseDeviceNames(absl::string_view text) {
  std::vector<std::string> names;
  if (text.empty()) return names;
  for (const absl::string_view name : absl::StrSplit(text, ',')) {
    names.emplace_back(absl::StripAsciiWhitespace(name));
  }
  return names;
}

std::string FormatDeviceNames(const std::vector<std::string>& names) {
  return absl::StrJoin(names, ",");
}

}  // namespace warpline
