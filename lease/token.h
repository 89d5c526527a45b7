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

// The client certificate that somebody showed; both empty for none.
struct CertificateHolder {
  std::string certificate = {};  // Its SHA-256 in hexadecimal.
  std::string names = {};        // What it names.
  friend bool operator==(const CertificateHolder&, const CertificateHolder&) = default;
};

// Of a peer as Acceptor::Accept() gets it.
CertificateHolder HolderOf(absl::string_view peer);

// Entitles its bearer to `max_sessions` sessions at a time on one server.
struct LeaseToken : Entitlement {
  std::string server;
  uint32_t max_sessions = 0;
  // Who got it, over TLS: nobody else may use it there, as in RFC 8705.
  CertificateHolder holder;
  // The number of the scheduler's term in which it was signed; 0 where only one scheduler leads.
  uint64_t epoch = 0;
  // Not empty for a ticket: `server` may take over the lease's sessions from this one, and nobody
  // opens a session with it.
  std::string moved_from = {};
  // The number of the move that such a ticket is for; no other move has it.
  uint64_t move = 0;
};

absl::StatusOr<std::string> SignToken(const SigningKey& key, const LeaseToken& token);

// Returns the token of `text` when one of `keys` signed it, otherwise UNAUTHENTICATED with words
// that are safe to log. Does not judge what the token says: see CheckToken().
absl::StatusOr<LeaseToken> OpenToken(absl::string_view text, const std::vector<VerifyKey>& keys);

// Returns OK if `token` opens a session on `server` at `now`. UNAUTHENTICATED when it has expired,
// is for another server, is a ticket, or gives rights that this version does not know.
absl::Status CheckToken(const LeaseToken& token, absl::string_view server, absl::Time now);

// Returns OK if `token` is a ticket that lets `server` take over a lease at `now`. Errors are those
// of CheckToken().
absl::Status CheckTicket(const LeaseToken& token, absl::string_view server, absl::Time now);

// Whether `holder` may use `token`. UNAUTHENTICATED when it is for another certificate. One that
// shows none may: where there is TLS, that is somebody on a unix socket of this host.
absl::Status CheckHolder(const LeaseToken& token, const CertificateHolder& holder);

// Whether `holder` may have `token` renewed, and makes it theirs: with the certificate that it is
// for, or with the one that followed it and has the same names. UNAUTHENTICATED otherwise.
absl::Status RenewHolder(const CertificateHolder& holder, LeaseToken* token);

}  // namespace warpline

#endif  // WARPLINE_LEASE_TOKEN_H_
