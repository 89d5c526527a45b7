#include "lease/rights.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace warpline {
namespace {

std::string NamesOf(Rights rights, absl::string_view separator) {
  std::string text;
  for (const CapabilityInfo& row : kCapabilityTable) {
    if ((rights & row.right) == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : separator, row.name);
  }
  return text;
}

}  // namespace

absl::StatusOr<Rights> ParseRights(absl::string_view text) {
  if (text == "all") return kAllRights;
  if (text == "none") return Rights{0};
  Rights rights = 0;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    Rights right = 0;
    for (const CapabilityInfo& row : kCapabilityTable) {
      if (word == row.name) right = row.right;
    }
    if (right == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("no right \"", word, "\": expected all, none, or some of ",
                       NamesOf(kKnownRights, ", "), ", separated by commas"));
    }
    rights |= right;
  }
  return rights;
}

std::string FormatRights(Rights rights) {
  if ((rights & kAllRights) != 0) return "all";
  const std::string text = NamesOf(rights, ",");
  return text.empty() ? "none" : text;
}

}  // namespace warpline
