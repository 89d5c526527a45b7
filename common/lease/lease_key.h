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
// Example, on the side of the programs:
//
//   const auto token = ReadLeaseToken({.key = getenv(kLeaseKeyVariable), .file = token_file});
#ifndef WARPLINE_COMMON_LEASE_LEASE_KEY_H_
#define WARPLINE_COMMON_LEASE_LEASE_KEY_H_

#include <sys/un.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline {

// The variable that has a key's text.
inline constexpr char kLeaseKeyVariable[] = "WARPLINE_LEASE_KEY";

// A value. Copies are of the same lease.
class LeaseKey {
 public:
  // Makes a key that cannot be guessed.
  static LeaseKey New();
  // Reads what text() says. INVALID_ARGUMENT for anything else.
  static absl::StatusOr<LeaseKey> Parse(absl::string_view text);

  // 64 hexadecimal digits.
  std::string text() const;
  // Where the keeper of the lease listens. The address does not give the key away.
  sockaddr_un address() const;

  // Encrypts a token. INTERNAL when OpenSSL fails.
  absl::StatusOr<std::string> Seal(absl::string_view token) const;
  // Returns what Seal() of the same key has encrypted. UNAUTHENTICATED for all other bytes.
  absl::StatusOr<std::string> Open(absl::string_view sealed) const;

 private:
  explicit LeaseKey(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string bytes_;
};

// Where a program finds the token of its lease. Empty texts stand for variables that are not set.
struct LeaseTokenPlace {
  std::string key = {};   // WARPLINE_LEASE_KEY
  std::string file = {};  // WARPLINE_TOKEN_FILE
};

// Returns the lease's current token: from the keeper of `place.key`, or else from `place.file`, for
// programs that do not reach the keeper. With a key, the file has to be this user's. NOT_FOUND, in
// words for the user, when neither has one. Waits up to some seconds for a keeper that is stopped.
// Thread-safe.
absl::StatusOr<std::string> ReadLeaseToken(const LeaseTokenPlace& place);

}  // namespace warpline

#endif  // WARPLINE_COMMON_LEASE_LEASE_KEY_H_
