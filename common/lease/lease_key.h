// The key by which the programs under `warpline run` get the current token of their lease from it.
//
// `warpline run` makes a key for each lease and passes it on in the environment, which every
// process that it starts inherits: through changes of the user, through programs that close all
// descriptors, and when no folder is left. The token changes whenever the lease is renewed, so the
// environment cannot hold it. Instead `warpline run` listens at an abstract unix socket whose name
// the key gives, and sends each process that connects the token, encrypted with the key.
//
// The system shows the environment of a process to its own user and to root alone, so no other user
// has the key. Anybody in the same network namespace may connect, and gets bytes that mean nothing
// without it. A process that takes the socket's name later cannot make bytes that the key opens.
//
// A program may set another WARPLINE_ENDPOINT or WARPLINE_TOKEN_FILE and leave the key as it is. So
// the key's text says for which of them it was made, and does not count beside others: the token
// goes to no other server.
//
// Example, on the side of the programs:
//
//   const auto token = ReadLeaseToken(
//       {.key = getenv(kLeaseKeyVariable), .file = token_file, .endpoint = endpoint});
#ifndef WARPLINE_COMMON_LEASE_LEASE_KEY_H_
#define WARPLINE_COMMON_LEASE_LEASE_KEY_H_

#include <sys/un.h>

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/steady_time.h"

namespace warpline {

// The variable that has a key's text.
inline constexpr char kLeaseKeyVariable[] = "WARPLINE_LEASE_KEY";

// A value. Copies are of the same lease.
class LeaseKey {
 public:
  // Makes a key that cannot be guessed, for programs whose WARPLINE_ENDPOINT is `endpoint` and
  // whose WARPLINE_TOKEN_FILE is `file`, which is empty where there is none.
  static LeaseKey New(absl::string_view endpoint, absl::string_view file);
  // Reads what text() says. INVALID_ARGUMENT for anything else.
  static absl::StatusOr<LeaseKey> Parse(absl::string_view text);

  // 96 hexadecimal digits: the secret, and what tells the endpoint and the file from others.
  std::string text() const;
  // These return whether it was made for this endpoint, and for this file.
  bool IsForEndpoint(absl::string_view endpoint) const;
  bool IsForFile(absl::string_view file) const;
  // Where the keeper of the lease listens. The address does not give the key away.
  sockaddr_un address() const;

  // Encrypts a token. INTERNAL when OpenSSL fails.
  absl::StatusOr<std::string> Seal(absl::string_view token) const;
  // Returns what Seal() of the same key has encrypted. UNAUTHENTICATED for all other bytes.
  absl::StatusOr<std::string> Open(absl::string_view sealed) const;

 private:
  LeaseKey() = default;

  std::string secret_;
  std::string endpoint_mark_;
  std::string file_mark_;
};

// Where a program finds the token of its lease, and where the token is to go. Empty texts stand for
// variables that are not set.
struct LeaseTokenPlace {
  std::string key = {};       // WARPLINE_LEASE_KEY
  std::string file = {};      // WARPLINE_TOKEN_FILE
  std::string endpoint = {};  // WARPLINE_ENDPOINT, or what an option says instead.
};

// Returns whether a lease is to be found at `place`. A key that was made for another endpoint does
// not count, and neither does the file that it was made for; beside another file, the file alone
// counts. Stateless.
bool NamesLease(const LeaseTokenPlace& place);

// Returns the lease's current token: from the keeper of `place.key`, or else from `place.file`, for
// programs that do not reach the keeper. With a key, the file has to be this user's. Returns an
// empty text when NamesLease() is false, and NOT_FOUND, in words for the user, when the lease's
// token cannot be had. Waits up to 5 seconds by `clock` for a keeper that is stopped or slow.
// Thread-safe.
absl::StatusOr<std::string> ReadLeaseToken(const LeaseTokenPlace& place,
                                           const std::function<absl::Time()>& clock = &SteadyNow);

}  // namespace warpline

#endif  // WARPLINE_COMMON_LEASE_LEASE_KEY_H_
