#include "guard/source_lines.h"

#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace warpline::guard {
namespace {

struct Place {
  uint32_t file = 0;
  uint32_t line = 0;
  // Where the function that the line belongs to was inlined; 0 if it was not.
  uint32_t caller_file = 0;
  uint32_t caller_line = 0;
};

std::vector<absl::string_view> Words(absl::string_view text) {
  return absl::StrSplit(text, absl::ByAnyChar(" \t,"), absl::SkipEmpty());
}

// "1 12 5, function_name $L__info_string0, inlined_at 1 20 3" of a .loc.
bool ReadLoc(absl::string_view rest, Place* place) {
  const std::vector<absl::string_view> words = Words(rest);
  if (words.size() < 2 || !absl::SimpleAtoi(words[0], &place->file) ||
      !absl::SimpleAtoi(words[1], &place->line) || place->line == 0) {
    return false;
  }
  for (size_t i = 2; i + 2 < words.size(); ++i) {
    if (words[i] != "inlined_at") continue;
    if (!absl::SimpleAtoi(words[i + 1], &place->caller_file) ||
        !absl::SimpleAtoi(words[i + 2], &place->caller_line)) {
      place->caller_line = 0;
    }
  }
  return true;
}

// `1 "/home/me/saxpy.cu"` of a .file; of the path the last part is enough.
bool ReadFile(absl::string_view rest, uint32_t* file, std::string* name) {
  const size_t open = rest.find('"');
  const size_t close = rest.rfind('"');
  if (open == absl::string_view::npos || close <= open) return false;
  const absl::string_view path = rest.substr(open + 1, close - open - 1);
  const size_t slash = path.rfind('/');
  *name = std::string(slash == absl::string_view::npos ? path : path.substr(slash + 1));
  const std::vector<absl::string_view> words = Words(rest.substr(0, open));
  return words.size() == 1 && absl::SimpleAtoi(words[0], file);
}

}  // namespace

void NameSources(std::string_view text, std::vector<CheckSite>* sites) {
  if (sites->empty() || text.find(".loc") == std::string_view::npos) return;
  std::map<uint32_t, std::string> files;
  std::map<uint32_t, Place> places;  // By the line of the PTX from which on they hold
  uint32_t number = 0;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    if (line.substr(0, 1) == "}") {
      places[number] = {};  // A function ends.
      continue;
    }
    line = absl::StripLeadingAsciiWhitespace(line);
    Place place;
    uint32_t file = 0;
    std::string name;
    if (absl::ConsumePrefix(&line, ".loc")) {
      if (ReadLoc(line, &place)) places[number] = place;
    } else if (absl::ConsumePrefix(&line, ".file")) {
      if (ReadFile(line, &file, &name)) files[file] = std::move(name);
    }
  }
  for (CheckSite& site : *sites) {
    auto at = places.upper_bound(site.line);
    if (at == places.begin()) continue;
    const Place& place = std::prev(at)->second;
    const auto file = files.find(place.file);
    if (place.line == 0 || file == files.end()) continue;
    site.source = absl::StrCat(file->second, ":", place.line);
    const auto caller = files.find(place.caller_file);
    if (place.caller_line == 0 || caller == files.end()) continue;
    // The caller is more often the program's own.
    site.source = absl::StrCat(caller->second, ":", place.caller_line, " (", site.source, ")");
  }
}

}  // namespace warpline::guard
