// The folder in which `warpline hold` keeps what the programs of a lease need: a pod's containers
// share one, and so one lease.
//
//   endpoint        where sessions are opened
//   token           the lease's current token; it is written last and removed first
//   driver_version  what cuDriverGetVersion says there; may be missing
//   tier            what sessions are of where nobody says; may be missing
//
// Each file has one word. They are replaced as a whole, so that no reader sees half of one.
#ifndef WARPLINE_COMMON_LEASE_FOLDER_H_
#define WARPLINE_COMMON_LEASE_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace warpline {

// The variable that names the folder. It counts where neither WARPLINE_ENDPOINT nor
// WARPLINE_TOKEN_FILE is set.
inline constexpr char kLeaseFolderVariable[] = "WARPLINE_LEASE_FOLDER";

// What is in a folder. Fields of files that are missing or empty are empty.
struct HeldLease {
  std::string endpoint;
  std::string token_file;  // A path, whether or not the file is there.
  std::string driver_version;
  std::string tier;
};

// Reads what is there, each file as ReadWordFile() does.
HeldLease ReadLeaseFolder(const std::string& folder);

// The users that may read the token. In a pod these are all, because its containers run as
// different users.
enum class TokenReaders { kOwner, kAll };

// Checks that a folder is fit for a token that its owner alone may read: INVALID_ARGUMENT when the
// folder belongs to another user than this one or root, or when others may write there.
absl::Status CheckOwnFolder(const std::string& folder);

// These write a folder, which exists. UNAVAILABLE when it cannot be written.

// Removes what a former holder left.
absl::Status ClearLeaseFolder(const std::string& folder);
// Writes all files but empty ones, the token last. `lease.token_file` counts for nothing.
absl::Status WriteLeaseFolder(const std::string& folder, const HeldLease& lease,
                              const std::string& token, TokenReaders readers);
absl::Status ReplaceTokenIn(const std::string& folder, const std::string& token,
                            TokenReaders readers);

}  // namespace warpline

#endif  // WARPLINE_COMMON_LEASE_FOLDER_H_
