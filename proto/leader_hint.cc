#include "proto/leader_hint.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/refusal.h"

namespace warpline {
namespace {

using warpline_internal::Refusal;

constexpr size_t kMaxAddress = 256;

bool IsAddressCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' ||
         c == ':' || c == '[' || c == ']' || c == '/' || c == '%';
}

bool IsAddress(const std::string& text) {
  return text.size() <= kMaxAddress && text.find(':') != std::string::npos &&
         std::all_of(text.begin(), text.end(), &IsAddressCharacter);
}

}  // namespace

absl::Status AnotherScheduler(const std::string& leader, absl::string_view why) {
  const std::string reason = why.empty() ? "" : absl::StrCat(" (", why, ")");
  Refusal refusal;
  refusal.set_reason(Refusal::ANOTHER_LEADS);
  refusal.set_leader(leader);
  return WithRefusal(
      absl::UnavailableError(leader.empty()
                                 ? absl::StrCat("no scheduler leads now", reason)
                                 : absl::StrCat("another scheduler leads: ", leader, reason)),
      refusal);
}

std::string LeaderIn(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return "";
  const Refusal refusal = RefusalOf(status);
  if (refusal.reason() != Refusal::ANOTHER_LEADS || !IsAddress(refusal.leader())) return "";
  return refusal.leader();
}

}  // namespace warpline
