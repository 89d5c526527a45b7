#include "proto/leader_hint.h"

#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

constexpr char kElsewhere[] = "another scheduler leads: ";
constexpr char kNowhere[] = "no scheduler leads now";
constexpr size_t kMaxAddress = 256;

bool IsAddressCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
         c == '-' || c == '_' || c == ':' || c == '[' || c == ']' || c == '/' || c == '%';
}

}  // namespace

absl::Status AnotherScheduler(const std::string& leader, absl::string_view why) {
  const std::string reason = why.empty() ? "" : absl::StrCat(" (", why, ")");
  return absl::UnavailableError(leader.empty() ? absl::StrCat(kNowhere, reason)
                                               : absl::StrCat(kElsewhere, leader, reason));
}

std::string LeaderIn(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return "";
  const absl::string_view message = status.message();
  const size_t found = message.find(kElsewhere);
  if (found == absl::string_view::npos) return "";
  absl::string_view address = message.substr(found + sizeof(kElsewhere) - 1);
  address = address.substr(0, address.find(' '));
  if (address.empty() || address.size() > kMaxAddress ||
      address.find(':') == absl::string_view::npos) {
    return "";
  }
  for (const char c : address) {
    if (!IsAddressCharacter(c)) return "";
  }
  return std::string(address);
}

}  // namespace warpline
