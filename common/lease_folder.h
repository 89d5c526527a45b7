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

#include <sys/types.h>

#include <optional>
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

// The users that may read the token.
struct TokenReaders {
  // All users. In a pod its containers run as different users.
  bool all = false;
  // This user as well, by an access control list. The file stays the process's own, so this user
  // cannot write to it, or let others read it. A batch system's holder runs as root, and the job as
  // another user.
  std::optional<uid_t> user = std::nullopt;
};

// Checks that a folder is fit for a token that its owner alone may read: INVALID_ARGUMENT when the
// folder belongs to another user than this one or root, or when others may write there.
absl::Status CheckOwnFolder(const std::string& folder);

// These write a folder, which exists. UNAVAILABLE when it cannot be written, or when the file
// system has no access control lists for `readers.user`.

// Removes what a former holder left.
absl::Status ClearLeaseFolder(const std::string& folder);
// Writes all files but empty ones, the token last. `lease.token_file` counts for nothing.
absl::Status WriteLeaseFolder(const std::string& folder, const HeldLease& lease,
                              const std::string& token, const TokenReaders& readers);
absl::Status ReplaceTokenIn(const std::string& folder, const std::string& token,
                            const TokenReaders& readers);

}  // namespace warpline

#endif  // WARPLINE_COMMON_LEASE_FOLDER_H_
