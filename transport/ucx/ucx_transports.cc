#include "transport/ucx/ucx_transports.h"

#include <algorithm>
#include <cstddef>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace warpline {
namespace {

constexpr absl::string_view kTcp = "tcp";
constexpr size_t kMostNames = 16;
constexpr size_t kLongestName = 16;

// UCX's names, and its names of several, for what stays within a host.
constexpr absl::string_view kWithinOneHost[] = {"self", "posix", "sysv",  "shm", "sm",
                                                "mm",   "cma",   "xpmem", "knem"};
// UCX's names of everything that it has.
constexpr absl::string_view kEverything = "all";

bool IsWithinOneHost(absl::string_view name) { return absl::c_linear_search(kWithinOneHost, name); }

bool IsName(absl::string_view text) {
  return !text.empty() && text.size() <= kLongestName &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_islower(static_cast<unsigned char>(c)) ||
                  absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '_';
         });
}

}  // namespace

absl::StatusOr<UcxTransports> UcxTransports::Parse(absl::string_view text) {
  UcxTransports transports;
  transports.names_ = absl::StrSplit(text, ',');
  if (transports.names_.size() > kMostNames) {
    return absl::InvalidArgumentError(absl::StrCat("more than ", kMostNames, " transports of UCX"));
  }
  std::vector<std::string> seen;
  for (const std::string& name : transports.names_) {
    if (!IsName(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", name.substr(0, 2 * kLongestName),
                       "\" is no name of a transport; expected a list such as rc,tcp"));
    }
    if (absl::c_linear_search(seen, name)) {
      return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is there twice"));
    }
    seen.push_back(name);
  }
  return transports;
}

absl::StatusOr<UcxTransports> UcxTransports::ParseTold(absl::string_view text) {
  return text.empty() ? UcxTransports() : Parse(text);
}

std::string UcxTransports::ToString() const { return absl::StrJoin(names_, ","); }

bool UcxTransports::HasTcp() const {
  return absl::c_linear_search(names_, kTcp) || absl::c_linear_search(names_, kEverything);
}

bool UcxTransports::AreWithinOneHost() const { return absl::c_all_of(names_, &IsWithinOneHost); }

absl::Status UcxTransports::CheckBetweenHosts() const {
  for (const std::string& name : names_) {
    if (name == kEverything || IsWithinOneHost(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", name, "\" shares memory within a host, where sessions have --shm"));
    }
  }
  return absl::OkStatus();
}

}  // namespace warpline
