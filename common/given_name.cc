#include "common/given_name.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/text.h"

namespace warpline {
namespace {

constexpr absl::string_view kFolders[] = {".", ".."};
constexpr absl::string_view kWords[] = {"any", "all", "none"};

std::string Listed(absl::string_view characters) {
  std::vector<std::string> parts;
  for (const char c : characters) parts.emplace_back(1, c);
  const std::string last = parts.back();
  parts.pop_back();
  return parts.empty() ? last : absl::StrCat(absl::StrJoin(parts, ", "), " or ", last);
}

}  // namespace

absl::Status CheckGivenName(absl::string_view kind, absl::string_view name, size_t max_bytes,
                            absl::string_view others) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ", kind, " cannot be called ", name, ", which is ", why));
  };
  if (!IsPlainName(name, max_bytes, others)) {
    return absl::InvalidArgumentError(absl::StrCat("a ", kind, "'s name has up to ", max_bytes,
                                                   " letters, digits, ", Listed(others)));
  }
  for (const absl::string_view folder : kFolders) {
    if (name == folder) return refuse("a folder wherever a name becomes a path");
  }
  for (const absl::string_view word : kWords) {
    if (absl::EqualsIgnoreCase(name, word)) return refuse("a word for lists and options");
  }
  if (absl::StartsWith(name, "-")) return refuse("an option on every command line");
  return absl::OkStatus();
}

}  // namespace warpline
