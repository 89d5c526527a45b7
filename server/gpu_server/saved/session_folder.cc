#include "server/gpu_server/saved/session_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/content_hash.h"
#include "common/transfer_all.h"
#include "google/protobuf/repeated_field.h"
#include "server/gpu_server/saved/file_errors.h"
#include "server/gpu_server/saved/memory_blocks.h"

namespace warpline::server {
namespace {

using warpline_internal::SavedFile;
using warpline_internal::SavedSession;

constexpr char kManifest[] = "manifest";

// Writes files and hashes what they hold.
class FolderSink : public PartSink {
 public:
  // `files` gets an entry for each; borrowed.
  FolderSink(std::string folder, google::protobuf::RepeatedPtrField<SavedFile>* files)
      : folder_(std::move(folder)), files_(files) {}

  absl::Status Begin(const std::string& part) override {
    path_ = absl::StrCat(folder_, "/", part);
    fd_ = UniqueFd(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd_.valid()) return FileError(path_, errno);
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
    return FileError(path_, written.error == 0 ? EIO : written.error);
  }

  // The disk has it when this returns.
  absl::Status End() override {
    if (fsync(fd_.get()) != 0) return FileError(path_, errno);
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
    if (file == files_.end()) return MalformedFile(path_, "the manifest does not tell of it");
    auto opened = OpenSavedFile(path_, file->bytes());
    if (!opened.ok()) return opened.status();
    fd_ = *std::move(opened);
    left_ = file->bytes();
    sha256_ = file->sha256();
    hasher_.emplace();
    return absl::OkStatus();
  }

  absl::Status Next(char* to, size_t bytes) override {
    if (bytes > left_) return MalformedFile(path_, "it ends too early");
    const Transfer got = TransferAll(
        bytes, [&](uint64_t done, uint64_t left) { return read(fd_.get(), to + done, left); });
    if (got.error != 0) return FileError(path_, got.error);
    if (got.bytes < bytes) return ChangedFile(path_);
    hasher_->Add({to, bytes});
    left_ -= bytes;
    return absl::OkStatus();
  }

  absl::Status End() override {
    ContentHash hash;
    if (left_ != 0) return MalformedFile(path_, "it has more than it should");
    if (!hasher_->Finish(&hash)) return absl::InternalError("OpenSSL cannot hash");
    return std::string(hash.begin(), hash.end()) == sha256_ ? absl::OkStatus() : ChangedFile(path_);
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

absl::StatusOr<uint64_t> WriteFiles(const std::string& folder, const std::string& former,
                                    const SwapSpace* space, SessionCut* cut,
                                    std::atomic<uint64_t>* done) {
  SavedSession& manifest = cut->manifest;
  manifest.clear_file();
  manifest.clear_memory_file();
  manifest.clear_block_sha256();
  manifest.clear_block_file();
  manifest.clear_block_at();
  DescribeParts(cut);
  FolderSink parts(folder, manifest.mutable_file());
  if (const absl::Status added = AddState(*cut, &parts); !added.ok()) return added;
  absl::StatusOr<uint64_t> bytes = uint64_t{0};
  if (cut->away != nullptr) {
    auto known = former.empty() ? absl::NotFoundError("") : ReadManifest(former);
    FormerBlocks blocks = {.folder = former, .manifest = {}};
    if (known.ok()) blocks.manifest = *std::move(known);
    bytes =
        WriteBlocks(folder, known.ok() ? &blocks : nullptr, *cut->away, *space, &manifest, done);
    if (!bytes.ok()) return bytes;
  }
  google::protobuf::RepeatedPtrField<SavedFile> unused;
  FolderSink last(folder, &unused);
  absl::Status written = last.Begin(kManifest);
  if (written.ok()) written = last.Add(manifest.SerializeAsString());
  if (written.ok()) written = last.End();
  if (written.ok()) written = SyncFolder(folder);
  return written.ok() ? bytes : written;
}

}  // namespace

absl::StatusOr<UniqueFd> LockFolder(const std::string& dir) {
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) return FileError(dir, errno);
  const UniqueFd folder(open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  if (!folder.valid() || fstat(folder.get(), &info) != 0) return FileError(dir, errno);
  if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        dir, " has what sessions have in memory: it must be the server's user's, with mode 0700"));
  }
  const std::string path = absl::StrCat(dir, "/lock");
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) return FileError(path, errno);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("another server uses ", dir));
  }
  return lock;
}

absl::Status SyncFolder(const std::string& path) {
  const UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid() || fsync(folder.get()) != 0) return FileError(path, errno);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> WriteSession(const std::string& folder, const std::string& former,
                                      const SwapSpace* space, SessionCut* cut,
                                      std::atomic<uint64_t>* done) {
  if (mkdir(folder.c_str(), 0700) != 0) return FileError(folder, errno);
  auto written = WriteFiles(folder, former, space, cut, done);
  std::error_code ignored;
  if (!written.ok()) std::filesystem::remove_all(folder, ignored);
  return written;
}

absl::StatusOr<SavedSession> ReadManifest(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kManifest);
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info;
  if (!fd.valid() || fstat(fd.get(), &info) != 0) return FileError(path, errno);
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) > kMostManifestBytes) {
    return MalformedFile(path, "not a manifest");
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  const Transfer got = TransferAll(bytes.size(), [&](uint64_t done, uint64_t left) {
    return pread(fd.get(), bytes.data() + done, left, static_cast<off_t>(done));
  });
  if (got.bytes < bytes.size()) return FileError(path, got.error == 0 ? EIO : got.error);
  auto manifest = ParseManifest(bytes);
  if (!manifest.ok()) {
    return absl::Status(manifest.status().code(),
                        absl::StrCat(path, ": ", manifest.status().message()));
  }
  return manifest;
}

absl::StatusOr<SessionCut> ReadSession(const std::string& folder, SavedSession manifest,
                                       SwapSpace* space, std::atomic<uint64_t>* done) {
  FolderSource source(folder, manifest);
  SessionCut cut;
  cut.manifest = std::move(manifest);
  if (const absl::Status read = ReadState(&source, &cut); !read.ok()) return read;
  auto away =
      TakeMemory(cut.manifest, space, [space](uint64_t bytes) { return space->Take(bytes); });
  if (!away.ok()) return away.status();
  if (*away != nullptr) {
    const absl::Status read = ReadBlocks(folder, cut.manifest, **away, *space, done);
    if (!read.ok()) return read;
    cut.away = *std::move(away);
  }
  return cut;
}

}  // namespace warpline::server
