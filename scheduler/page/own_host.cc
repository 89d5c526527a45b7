#include "scheduler/page/own_host.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "common/serving/listen_address.h"

namespace warpline::scheduler::page {

bool IsOwnHost(absl::string_view host) {
  const bool bracketed = absl::ConsumePrefix(&host, "[");
  const size_t end = host.find(bracketed ? ']' : ':');
  absl::string_view rest = end == absl::string_view::npos ? "" : host.substr(end);
  host = host.substr(0, end);
  if (bracketed && !absl::ConsumePrefix(&rest, "]")) return false;
  if (absl::ConsumePrefix(&rest, ":") && rest.empty()) return false;
  if (!std::all_of(rest.begin(), rest.end(), absl::ascii_isdigit)) return false;
  const bool numbers = absl::StrContains(host, ':');
  return bracketed == numbers && IsLoopbackHost(absl::AsciiStrToLower(host));
}

bool IsOwnOrigin(absl::string_view origin) {
  return (absl::ConsumePrefix(&origin, "http://") || absl::ConsumePrefix(&origin, "https://")) &&
         IsOwnHost(origin);
}

}  // namespace warpline::scheduler::page
