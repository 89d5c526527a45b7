#include "common/elf/search_folders.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/elf/dynamic_section.h"

namespace warpline::elf {
namespace {

struct Tokens {
  std::string_view origin;
  std::string_view lib;
  std::string_view platform;
};

// Debian's, that of Fedora and others; and for the platform that of processors with AVX2 until
// glibc 2.36.
constexpr std::string_view kLibs[] = {"lib/x86_64-linux-gnu", "lib64"};
constexpr std::string_view kPlatforms[] = {"x86_64", "haswell"};

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Takes the token `name` off the beginning of `rest`, which lies behind a '$'.
bool TakeToken(std::string_view name, std::string_view* rest) {
  const bool braces = rest->starts_with('{');
  std::string_view text = rest->substr(braces ? 1 : 0);
  if (!text.starts_with(name)) return false;
  text.remove_prefix(name.size());
  if (braces) {
    if (!text.starts_with('}')) return false;
    text.remove_prefix(1);
  } else if (!text.empty() && IsWord(text[0])) {
    return false;
  }
  *rest = text;
  return true;
}

std::optional<std::string> Expand(std::string_view text, const Tokens& tokens) {
  const std::pair<std::string_view, std::string_view> values[] = {
      {"ORIGIN", tokens.origin}, {"LIB", tokens.lib}, {"PLATFORM", tokens.platform}};
  std::string expanded;
  while (!text.empty() && expanded.size() <= kMostNameBytes) {
    const char c = text[0];
    text.remove_prefix(1);
    const auto* const token =
        c != '$' ? std::end(values)
                 : std::find_if(std::begin(values), std::end(values),
                                [&text](const auto& one) { return TakeToken(one.first, &text); });
    if (token == std::end(values)) {
      expanded += c;
    } else {
      expanded += token->second;
    }
  }
  if (expanded.size() > kMostNameBytes) return std::nullopt;
  return expanded;
}

}  // namespace

std::vector<std::string> ExpandTokens(std::string_view text, std::string_view origin) {
  std::vector<std::string> all;
  for (const std::string_view lib : kLibs) {
    for (const std::string_view platform : kPlatforms) {
      auto one = Expand(text, {.origin = origin, .lib = lib, .platform = platform});
      if (!one.has_value()) continue;
      if (std::find(all.begin(), all.end(), *one) == all.end()) all.push_back(*std::move(one));
    }
  }
  return all;
}

std::vector<std::string> FoldersOf(std::string_view list, std::string_view separators,
                                   std::string_view origin) {
  std::vector<std::string> folders;
  if (list.empty()) return folders;
  size_t bytes = 0;
  while (folders.size() < kMostFolders) {
    const size_t end = list.find_first_of(separators);
    const std::string_view item = list.substr(0, end);
    for (std::string& folder : ExpandTokens(item.empty() ? "." : item, origin)) {
      bytes += folder.size();
      if (bytes > kMostListBytes) return folders;
      folders.push_back(std::move(folder));
    }
    if (end == std::string_view::npos) break;
    list.remove_prefix(end + 1);
  }
  return folders;
}

}  // namespace warpline::elf
