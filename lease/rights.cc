#include "lease/rights.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace warpline {
namespace {

constexpr struct {
  Rights right;
  const char* name;
} kNames[] = {{kLaunchRight, "launch"},
              {kLoadRight, "load"},
              {kCopyInRight, "copy_in"},
              {kCopyOutRight, "copy_out"},
              {kMemoryRight, "memory"}};

}  // namespace

absl::StatusOr<Rights> ParseRights(absl::string_view text) {
  if (text == "all") return kAllRights;
  if (text == "none") return Rights{0};
  Rights rights = 0;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    Rights right = 0;
    for (const auto& known : kNames) {
      if (word == known.name) right = known.right;
    }
    if (right == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("no right \"", word,
                       "\": expected all, none, or some of launch, load, copy_in, copy_out, "
                       "memory, separated by commas"));
    }
    rights |= right;
  }
  return rights;
}

std::string FormatRights(Rights rights) {
  if ((rights & kAllRights) != 0) return "all";
  std::string text;
  for (const auto& known : kNames) {
    if ((rights & known.right) != 0) absl::StrAppend(&text, text.empty() ? "" : ",", known.name);
  }
  return text.empty() ? "none" : text;
}

}  // namespace warpline
