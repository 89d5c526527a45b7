// The secrets in the scheduler's state folder: the keys that sign tokens, and the operator's
// credential. They lie in files that only their owner can read.
#ifndef WARPLINE_SCHEDULER_STATE_FOLDER_H_
#define WARPLINE_SCHEDULER_STATE_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lease/signing_key.h"

namespace warpline::scheduler {

// Makes the folder when it is missing, and locks it until the process ends. FAILED_PRECONDITION
// when other users can write into it or another scheduler holds it.
absl::Status HoldStateFolder(const std::string& folder);

// Returns the credential in `path`, read as OnlyWordOf() does; it is made when there is none.
absl::StatusOr<std::string> CredentialIn(const std::string& path);

// The term in the file `path` (Store::epoch()); 0 when there is none. DATA_LOSS when it is no
// number.
absl::StatusOr<uint64_t> EpochIn(const std::string& path);

// Makes a new credential.
std::string NewCredential();

// Returns the hash of a credential in hex, which is all that is kept of it.
std::string HashCredential(absl::string_view credential);

// Replaces the file as a whole. Only its owner can read it, and it is on the disk when the call
// returns.
absl::Status WriteSecret(const std::string& path, const std::string& text);

// Where a KeyRing's text is kept.
class KeyShelf {
 public:
  virtual ~KeyShelf() = default;
  // Returns an empty text as long as nothing was written.
  virtual absl::StatusOr<std::string> Read() = 0;
  // Replaces the text as a whole. It is kept when the call returns.
  virtual absl::Status Write(const std::string& text) = 0;
  // For messages.
  virtual std::string name() const = 0;
};

// A file that only its owner can read.
class KeyFile : public KeyShelf {
 public:
  explicit KeyFile(std::string path) : path_(std::move(path)) {}
  absl::StatusOr<std::string> Read() override;
  absl::Status Write(const std::string& text) override { return WriteSecret(path_, text); }
  std::string name() const override { return path_; }

 private:
  const std::string path_;
};

// The newest keys that sign tokens, at most two. A new key is made when the newest is older than
// `period`. It does not sign before it is `settle` old, so that all servers know it by then; the
// key before it stays known until the next is made. Thread-compatible.
class KeyRing {
 public:
  static absl::StatusOr<KeyRing> Open(std::unique_ptr<KeyShelf> shelf, absl::Duration period,
                                      absl::Duration settle, absl::Time now);
  // With the keys in the file `path`.
  static absl::StatusOr<KeyRing> Open(const std::string& path, absl::Duration period,
                                      absl::Duration settle, absl::Time now);

  const SigningKey& SignerAt(absl::Time now) const;
  std::vector<VerifyKey> VerifyKeys() const;
  // Makes a new key when it is time, and returns whether it did.
  absl::StatusOr<bool> RotateIfDue(absl::Time now);

 private:
  struct Entry {
    absl::Time created;
    SigningKey key;
  };

  KeyRing(std::unique_ptr<KeyShelf> shelf, absl::Duration period, absl::Duration settle)
      : shelf_(std::move(shelf)), period_(period), settle_(settle) {}

  std::unique_ptr<KeyShelf> shelf_;
  absl::Duration period_;
  absl::Duration settle_;
  std::vector<Entry> keys_;  // Newest first; never empty once open.
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STATE_FOLDER_H_
