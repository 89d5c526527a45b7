// base64url as JOSE has it (RFC 7515, section 2): without padding, white space or other letters,
// and in the one spelling that each byte string has.
#ifndef WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_BASE64URL_H_
#define WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_BASE64URL_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace warpline::scheduler {

// Returns nothing for a text that is not written so.
std::optional<std::string> DecodeBase64Url(absl::string_view text);
std::string EncodeBase64Url(absl::string_view bytes);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SERVICE_ACCOUNTS_BASE64URL_H_
