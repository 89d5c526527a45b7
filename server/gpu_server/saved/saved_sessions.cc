#include "server/gpu_server/saved/saved_sessions.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/content_hash.h"
#include "common/text_file.h"
#include "common/transfer_all.h"
#include "google/protobuf/repeated_field.h"

namespace warpline::server {
namespace {

using warpline_internal::SavedFile;
using warpline_internal::SavedSession;

constexpr char kSaved[] = "session";
constexpr char kPartial[] = "partial";
constexpr char kTaken[] = "taken";
constexpr char kManifest[] = "manifest";
constexpr size_t kMostNameBytes = 80;
// Leaves room for the sessions of this server.
constexpr uint64_t kMostNumber = uint64_t{1} << 62;

absl::Status Failed(const std::string& path, int error) {
  const std::string text = absl::StrCat(path, ": ", std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(text);
    case ENOENT:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

absl::Status Lost(const std::string& path) {
  return absl::DataLossError(absl::StrCat(path, " is not what was written"));
}

absl::Status Malformed(const std::string& path, const char* what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

// Writes files and hashes what they hold.
class FolderSink : public PartSink {
 public:
  // `files` gets an entry for each; borrowed.
  FolderSink(std::string folder, google::protobuf::RepeatedPtrField<SavedFile>* files)
      : folder_(std::move(folder)), files_(files) {}

  absl::Status Begin(const std::string& part) override {
    path_ = absl::StrCat(folder_, "/", part);
    fd_ = UniqueFd(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd_.valid()) return Failed(path_, errno);
    hasher_.emplace();
    file_ = SavedFile();
    file_.set_name(part);
    return absl::OkStatus();
  }

  absl::Status Add(std::string bytes) override {
    hasher_->Add(bytes);
    file_.set_bytes(file_.bytes() + bytes.size());
    const Transfer written = TransferAll(bytes.size(), [&](uint64_t done, uint64_t left) {
      return write(fd_.get(), bytes.data() + done, left);
    });
    if (written.bytes == bytes.size()) return absl::OkStatus();
    return Failed(path_, written.error == 0 ? EIO : written.error);
  }

  // The disk has it when this returns.
  absl::Status End() override {
    if (fsync(fd_.get()) != 0) return Failed(path_, errno);
    ContentHash hash;
    if (!hasher_->Finish(&hash)) return absl::InternalError("OpenSSL cannot hash");
    file_.set_sha256(std::string(hash.begin(), hash.end()));
    *files_->Add() = std::move(file_);
    return absl::OkStatus();
  }

 private:
  const std::string folder_;
  google::protobuf::RepeatedPtrField<SavedFile>* const files_;
  std::string path_;
  UniqueFd fd_;
  std::optional<ContentHasher> hasher_;
  SavedFile file_;
};

// Reads the files that a manifest tells of, from their beginning to their end.
class FolderSource : public PartSource {
 public:
  FolderSource(std::string folder, const SavedSession& manifest)
      : folder_(std::move(folder)), files_(manifest.file()) {}

  absl::Status Begin(const std::string& part) override {
    path_ = absl::StrCat(folder_, "/", part);
    const auto file =
        absl::c_find_if(files_, [&part](const SavedFile& known) { return known.name() == part; });
    if (file == files_.end()) return Malformed(path_, "the manifest does not tell of it");
    fd_ = UniqueFd(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd_.valid()) return Failed(path_, errno);
    struct stat info;
    if (fstat(fd_.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
      return Malformed(path_, "not a file");
    }
    if (static_cast<uint64_t>(info.st_size) != file->bytes()) return Lost(path_);
    left_ = file->bytes();
    sha256_ = file->sha256();
    hasher_.emplace();
    return absl::OkStatus();
  }

  absl::Status Next(char* to, size_t bytes) override {
    if (bytes > left_) return Malformed(path_, "it ends too early");
    const Transfer got = TransferAll(
        bytes, [&](uint64_t done, uint64_t left) { return read(fd_.get(), to + done, left); });
    if (got.error != 0) return Failed(path_, got.error);
    if (got.bytes < bytes) return Lost(path_);
    hasher_->Add({to, bytes});
    left_ -= bytes;
    return absl::OkStatus();
  }

  absl::Status End() override {
    ContentHash hash;
    if (left_ != 0) return Malformed(path_, "it has more than it should");
    if (!hasher_->Finish(&hash)) return absl::InternalError("OpenSSL cannot hash");
    return std::string(hash.begin(), hash.end()) == sha256_ ? absl::OkStatus() : Lost(path_);
  }

 private:
  const std::string folder_;
  const google::protobuf::RepeatedPtrField<SavedFile> files_;
  std::string path_;
  UniqueFd fd_;
  uint64_t left_ = 0;
  std::string sha256_;
  std::optional<ContentHasher> hasher_;
};

absl::Status SyncFolder(const std::string& path) {
  const UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid() || fsync(folder.get()) != 0) return Failed(path, errno);
  return absl::OkStatus();
}

// Returns the number in "session-7"; 0 for another name.
uint64_t NumberIn(absl::string_view name, const char* state) {
  uint64_t number = 0;
  const std::string prefix = absl::StrCat(state, "-");
  if (!absl::StartsWith(name, prefix)) return 0;
  name.remove_prefix(prefix.size());
  const bool is_number = absl::SimpleAtoi(name, &number) && name == absl::StrCat(number);
  return is_number && number < kMostNumber ? number : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SavedSessions>> SavedSessions::Open(std::string dir,
                                                                   SwapSpace* space) {
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) return Failed(dir, errno);
  const UniqueFd folder(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  if (!folder.valid() || fstat(folder.get(), &info) != 0) return Failed(dir, errno);
  if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        dir, " has what sessions have in memory: it must be the server's user's, with mode 0700"));
  }
  const std::string path = absl::StrCat(dir, "/lock");
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) return Failed(path, errno);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("another server uses ", dir));
  }
  // A session that was being written or taken over when its server was killed is lost.
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename();
    if (NumberIn(name, kPartial) != 0 || NumberIn(name, kTaken) != 0) {
      std::error_code ignored;
      std::filesystem::remove_all(entry.path(), ignored);
    }
  }
  return std::unique_ptr<SavedSessions>(new SavedSessions(std::move(dir), space, std::move(lock)));
}

std::string SavedSessions::FolderOf(const char* state, uint64_t session) const {
  return absl::StrCat(dir_, "/", state, "-", session);
}

std::string SavedSessions::NameOf(const std::string& what, const std::string& made) const {
  const std::string path = absl::StrCat(dir_, "/", what, ".name");
  if (const auto known = ReadWordFile(path); known.ok() && known->size() <= kMostNameBytes) {
    const bool is_name =
        absl::c_all_of(*known, [](unsigned char c) { return absl::ascii_isalnum(c) || c == '-'; });
    if (is_name) return *known;
  }
  // Without the file, the next server's name is another one.
  std::ofstream(path, std::ios::trunc) << made << "\n";
  return made;
}

std::map<uint64_t, std::string> SavedSessions::Find(std::vector<std::string>* unreadable) const {
  std::map<uint64_t, std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir_, error)) {
    const uint64_t session = NumberIn(std::string(entry.path().filename()), kSaved);
    if (session == 0) continue;
    auto manifest = ReadManifest(session);
    if (manifest.ok()) {
      found[session] = manifest->secret();
    } else {
      unreadable->push_back(manifest.status().ToString());
    }
  }
  return found;
}

uint64_t SavedSessions::LastNumber() const {
  uint64_t last = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir_, error)) {
    last = std::max(last, NumberIn(std::string(entry.path().filename()), kSaved));
  }
  return last;
}

absl::Status SavedSessions::Write(SessionCut* cut) {
  const uint64_t session = cut->manifest.session();
  const std::string folder = FolderOf(kPartial, session);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (mkdir(folder.c_str(), 0700) != 0) return Failed(folder, errno);
  absl::Status written = WriteFiles(folder, cut);
  if (written.ok()) written = SyncFolder(folder);
  const std::string to = FolderOf(kSaved, session);
  if (written.ok() && rename(folder.c_str(), to.c_str()) != 0) written = Failed(to, errno);
  if (!written.ok()) {
    std::filesystem::remove_all(folder, ignored);
    return written;
  }
  written = SyncFolder(dir_);
  if (!written.ok()) std::filesystem::remove_all(to, ignored);
  return written;
}

absl::Status SavedSessions::WriteFiles(const std::string& folder, SessionCut* cut) const {
  SavedSession& manifest = cut->manifest;
  manifest.clear_file();
  DescribeParts(cut);
  FolderSink parts(folder, manifest.mutable_file());
  if (const absl::Status added = AddParts(*cut, space_, &parts); !added.ok()) return added;
  google::protobuf::RepeatedPtrField<SavedFile> unused;
  FolderSink last(folder, &unused);
  absl::Status written = last.Begin(kManifest);
  if (written.ok()) written = last.Add(manifest.SerializeAsString());
  return written.ok() ? last.End() : written;
}

absl::StatusOr<SavedSession> SavedSessions::ReadManifest(uint64_t session) const {
  const std::string path = absl::StrCat(FolderOf(kSaved, session), "/", kManifest);
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info;
  if (!fd.valid() || fstat(fd.get(), &info) != 0) return Failed(path, errno);
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) > kMostManifestBytes) {
    return Malformed(path, "not a manifest");
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  const Transfer got = TransferAll(bytes.size(), [&](uint64_t done, uint64_t left) {
    return pread(fd.get(), bytes.data() + done, left, static_cast<off_t>(done));
  });
  if (got.bytes < bytes.size()) return Failed(path, got.error == 0 ? EIO : got.error);
  auto manifest = ParseManifest(bytes);
  if (!manifest.ok()) {
    return absl::Status(manifest.status().code(),
                        absl::StrCat(path, ": ", manifest.status().message()));
  }
  if (manifest->session() != session) return Malformed(path, "the manifest of another session");
  return manifest;
}

absl::StatusOr<SessionCut> SavedSessions::Read(uint64_t session) const {
  auto manifest = ReadManifest(session);
  if (!manifest.ok()) return manifest.status();
  FolderSource source(FolderOf(kSaved, session), *manifest);
  return ReadParts(*std::move(manifest), space_, &source);
}

absl::Status SavedSessions::Take(uint64_t session) {
  const std::string from = FolderOf(kSaved, session);
  if (rename(from.c_str(), FolderOf(kTaken, session).c_str()) != 0) return Failed(from, errno);
  return SyncFolder(dir_);
}

absl::Status SavedSessions::PutBack(uint64_t session) {
  const std::string from = FolderOf(kTaken, session);
  if (rename(from.c_str(), FolderOf(kSaved, session).c_str()) != 0) return Failed(from, errno);
  return SyncFolder(dir_);
}

void SavedSessions::Forget(uint64_t session) {
  std::error_code ignored;
  std::filesystem::remove_all(FolderOf(kTaken, session), ignored);
}

}  // namespace warpline::server
