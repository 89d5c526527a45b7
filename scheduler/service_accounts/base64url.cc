#include "scheduler/service_accounts/base64url.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace warpline::scheduler {

std::optional<std::string> DecodeBase64Url(absl::string_view text) {
  const bool letters = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_';
  });
  std::string bytes;
  if (!letters || !absl::WebSafeBase64Unescape(text, &bytes)) return std::nullopt;
  // The bits that are left over at the end could be anything.
  if (EncodeBase64Url(bytes) != text) return std::nullopt;
  return bytes;
}

// Abseil's is without padding.
std::string EncodeBase64Url(absl::string_view bytes) { return absl::WebSafeBase64Escape(bytes); }

}  // namespace warpline::scheduler
