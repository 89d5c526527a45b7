#include "scheduler/state_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/crypto/secret.h"
#include "common/text_file.h"
#include "common/unique_fd.h"

namespace warpline::scheduler {
namespace {

constexpr size_t kCredentialBytes = 32;
constexpr size_t kKeys = 2;
constexpr size_t kMaxFileBytes = 64 << 10;

absl::Status Failed(const std::string& what, const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

absl::Status MakeFolders(const std::string& folder) {
  for (size_t slash = folder.find('/', 1);; slash = folder.find('/', slash + 1)) {
    const std::string part = folder.substr(0, slash);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return Failed("make", part);
    if (slash == std::string::npos) return absl::OkStatus();
  }
}

// Returns an empty text when there is no such file.
absl::StatusOr<std::string> ReadFile(const std::string& path) {
  auto text = ReadTextFile(path, kMaxFileBytes);
  if (absl::IsNotFound(text.status())) return "";
  if (!text.ok()) return absl::FailedPreconditionError(text.status().message());
  return text;
}

// Whoever owns the folder can put other keys in place of ours, whatever its mode says. It may be a
// link, which systemd makes for a service with a user of its own; then nobody else's.
absl::Status CheckOwner(const std::string& folder) {
  struct stat link = {};
  if (lstat(folder.c_str(), &link) != 0) return Failed("read", folder);
  const UniqueFd opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info = {};
  if (!opened.valid() || fstat(opened.get(), &info) != 0) return Failed("read", folder);
  const bool others_link = S_ISLNK(link.st_mode) && link.st_uid != 0 && link.st_uid != geteuid();
  if (info.st_uid != geteuid() || others_link) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, " belongs to user ", others_link ? link.st_uid : info.st_uid,
                     " and the scheduler runs as ", geteuid(), ": chown it, or name another"));
  }
  if ((info.st_mode & 0022) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, " can be written by other users: chmod 700 it"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status HoldStateFolder(const std::string& folder) {
  if (folder.empty()) return absl::FailedPreconditionError("no state folder is named");
  if (auto status = MakeFolders(folder); !status.ok()) return status;
  if (auto status = CheckOwner(folder); !status.ok()) return status;
  const std::string path = folder + "/lock";
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.get() < 0) return Failed("open", path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("another scheduler runs with the state folder ", folder));
  }
  lock.Release();  // The lock is held for as long as the process lives.
  return absl::OkStatus();
}

absl::Status WriteSecret(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  UniqueFd file(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return Failed("write", part);
  const bool written =
      write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      fsync(file.get()) == 0 && rename(part.c_str(), path.c_str()) == 0;
  if (!written) return Failed("write", path);
  const UniqueFd folder(open(path.substr(0, path.rfind('/') + 1).c_str(), O_RDONLY | O_CLOEXEC));
  return fsync(folder.get()) == 0 ? absl::OkStatus() : Failed("write", path);
}

std::string NewCredential() { return absl::WebSafeBase64Escape(RandomBytes(kCredentialBytes)); }

std::string HashCredential(absl::string_view credential) {
  return absl::BytesToHexString(Sha256(credential));
}

absl::StatusOr<std::string> CredentialIn(const std::string& path) {
  const auto text = ReadFile(path);
  if (!text.ok()) return text.status();
  if (!absl::StripAsciiWhitespace(*text).empty()) {
    auto found = OnlyWordOf(*text);
    if (found.ok()) return found;
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read ", path, ": ", found.status().message()));
  }
  const std::string made = NewCredential();
  if (auto status = WriteSecret(path, made + "\n"); !status.ok()) return status;
  return made;
}

absl::StatusOr<uint64_t> EpochIn(const std::string& path) {
  const auto text = ReadFile(path);
  if (!text.ok()) return text.status();
  const absl::string_view found = absl::StripAsciiWhitespace(*text);
  uint64_t epoch = 0;
  if (!found.empty() && !absl::SimpleAtoi(found, &epoch)) {
    return absl::DataLossError(absl::StrCat(path, " is no number: put back a copy"));
  }
  return epoch;
}

absl::StatusOr<std::string> KeyFile::Read() { return ReadFile(path_); }

absl::StatusOr<KeyRing> KeyRing::Open(const std::string& path, absl::Duration period,
                                      absl::Duration settle, absl::Time now) {
  return Open(std::make_unique<KeyFile>(path), period, settle, now);
}

// The text has a line for each key: when it was made, in milliseconds, and the key in hex.
absl::StatusOr<KeyRing> KeyRing::Open(std::unique_ptr<KeyShelf> shelf, absl::Duration period,
                                      absl::Duration settle, absl::Time now) {
  const absl::Status damaged =
      absl::FailedPreconditionError(absl::StrCat(shelf->name(), " is damaged"));
  const auto text = shelf->Read();
  if (!text.ok()) return text.status();
  KeyRing ring(std::move(shelf), period, settle);
  for (const absl::string_view line :
       absl::StrSplit(*text, absl::ByAnyChar("\r\n"), absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    int64_t created = 0;
    if (words.size() != 2 || !absl::SimpleAtoi(words[0], &created)) return damaged;
    auto key = SigningKey::FromPrivateBytes(absl::HexStringToBytes(words[1]));
    if (!key.ok()) return damaged;
    ring.keys_.push_back({absl::FromUnixMillis(created), *std::move(key)});
  }
  const auto rotated = ring.RotateIfDue(now);
  if (!rotated.ok()) return rotated.status();
  return ring;
}

const SigningKey& KeyRing::SignerAt(absl::Time now) const {
  for (const Entry& entry : keys_) {
    if (now - entry.created >= settle_) return entry.key;
  }
  return keys_.back().key;
}

std::vector<VerifyKey> KeyRing::VerifyKeys() const {
  std::vector<VerifyKey> keys;
  for (const Entry& entry : keys_) keys.push_back(entry.key.verify_key());
  return keys;
}

absl::StatusOr<bool> KeyRing::RotateIfDue(absl::Time now) {
  if (!keys_.empty() && now - keys_.front().created < period_) return false;
  auto key = SigningKey::Generate();
  if (!key.ok()) return key.status();
  std::vector<Entry> keys = keys_;
  keys.insert(keys.begin(), {now, *std::move(key)});
  if (keys.size() > kKeys) keys.erase(keys.begin() + kKeys, keys.end());
  std::string text;
  for (const Entry& entry : keys) {
    absl::StrAppend(&text, absl::ToUnixMillis(entry.created), " ",
                    absl::BytesToHexString(entry.key.private_bytes()), "\n");
  }
  if (auto status = shelf_->Write(text); !status.ok()) return status;
  keys_ = std::move(keys);
  return true;
}

}  // namespace warpline::scheduler
