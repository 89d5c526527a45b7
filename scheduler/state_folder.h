// The secrets in the scheduler's state folder: keys that sign tokens, and the operator's
// credential. Files that only their owner can read.
#ifndef WARPLINE_SCHEDULER_STATE_FOLDER_H_
#define WARPLINE_SCHEDULER_STATE_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lease/signing_key.h"

namespace warpline::scheduler {

// Makes the folder where it is missing. FAILED_PRECONDITION when other users can write into it or
// another scheduler holds it; held until the process ends.
absl::Status HoldStateFolder(const std::string& folder);

// The credential in `path`, made at first. Trailing white space does not count.
absl::StatusOr<std::string> CredentialIn(const std::string& path);

// A new credential.
std::string NewCredential();

// What is kept of a credential: its hash, in hex.
std::string HashCredential(absl::string_view credential);

// Replaces the file as a whole, readable by its owner alone, and on the disk when it returns.
absl::Status WriteSecret(const std::string& path, const std::string& text);

// The newest keys that sign tokens: two at most. A new one is made when the newest is older than
// `period`, and does not sign before it is `settle` old, so that all servers know it by then; the
// one before it stays known until the next. Thread-compatible.
class KeyRing {
 public:
  static absl::StatusOr<KeyRing> Open(const std::string& path, absl::Duration period,
                                      absl::Duration settle, absl::Time now);

  const SigningKey& SignerAt(absl::Time now) const;
  std::vector<VerifyKey> VerifyKeys() const;
  // Makes a new key when it is time. Returns whether it did.
  absl::StatusOr<bool> RotateIfDue(absl::Time now);

 private:
  struct Entry {
    absl::Time created;
    SigningKey key;
  };

  KeyRing(std::string path, absl::Duration period, absl::Duration settle)
      : path_(std::move(path)), period_(period), settle_(settle) {}

  std::string path_;
  absl::Duration period_;
  absl::Duration settle_;
  std::vector<Entry> keys_;  // Newest first; never empty once open.
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STATE_FOLDER_H_
