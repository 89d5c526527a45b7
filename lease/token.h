// Tokens, which a session shows to a server to be admitted. A token names a lease, its server, its
// devices and its quota, and is signed by the issuer of the lease: the scheduler, or the server
// itself.
//
// As text, a token is base64url(TokenBody) "." base64url(signature): printable and one line.
#ifndef WARPLINE_LEASE_TOKEN_H_
#define WARPLINE_LEASE_TOKEN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lease/entitlement.h"
#include "lease/signing_key.h"

namespace warpline {

// Longer texts are refused unread.
inline constexpr size_t kMaxTokenText = 2048;

// Entitles its bearer to `max_sessions` sessions at a time on one server.
struct LeaseToken : Entitlement {
  std::string server;
  uint32_t max_sessions = 0;
};

absl::StatusOr<std::string> SignToken(const SigningKey& key, const LeaseToken& token);

// Returns the token of `text` when one of `keys` signed it, otherwise UNAUTHENTICATED with words
// that are safe to log. Does not judge what the token says: see CheckToken().
absl::StatusOr<LeaseToken> OpenToken(absl::string_view text, const std::vector<VerifyKey>& keys);

// Whether `token` opens a session on `server` at `now`. UNAUTHENTICATED when it has expired, is for
// another server, or gives rights that this version does not know.
absl::Status CheckToken(const LeaseToken& token, absl::string_view server, absl::Time now);

}  // namespace warpline

#endif  // WARPLINE_LEASE_TOKEN_H_
