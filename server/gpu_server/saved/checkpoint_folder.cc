#include "server/gpu_server/saved/checkpoint_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/gpu_server/saved/file_errors.h"
#include "server/gpu_server/saved/session_folder.h"

namespace warpline::server {
namespace {

using warpline_internal::SavedSession;

constexpr char kSessions[] = "sessions";
constexpr char kNext[] = "next";
constexpr char kFormer[] = "former";
// A lease has no more sessions.
constexpr size_t kMostSessions = 4096;

void Remove(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

absl::Status Rename(const std::string& from, const std::string& to) {
  return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : FileError(to, errno);
}

std::string FolderOf(const std::string& dir, size_t number) {
  return absl::StrCat(dir, "/session-", number);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointFolder>> CheckpointFolder::Open(std::string dir,
                                                                         bool makes,
                                                                         SwapSpace* space) {
  if (!makes && access(dir.c_str(), F_OK) != 0) return FileError(dir, errno);
  auto lock = LockFolder(dir);
  if (!lock.ok()) return lock.status();
  std::unique_ptr<CheckpointFolder> folder(
      new CheckpointFolder(std::move(dir), space, *std::move(lock)));
  // The server that wrote here may have been killed amidst.
  struct stat info;
  if (lstat(folder->Path(kSessions).c_str(), &info) != 0) {
    rename(folder->Path(kFormer).c_str(), folder->Path(kSessions).c_str());
  }
  Remove(folder->Path(kFormer));
  Remove(folder->Path(kNext));
  return folder;
}

std::string CheckpointFolder::Path(const char* name) const { return absl::StrCat(dir_, "/", name); }

absl::StatusOr<std::vector<std::string>> CheckpointFolder::Folders() const {
  std::vector<std::string> folders;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(Path(kSessions), error), end;
       !error && entry != end && folders.size() < kMostSessions; entry.increment(error)) {
    folders.push_back(FolderOf(Path(kSessions), folders.size()));
  }
  if (error == std::errc::no_such_file_or_directory || folders.empty()) {
    return absl::NotFoundError(absl::StrCat(dir_, ": there is no checkpoint"));
  }
  if (error) return FileError(Path(kSessions), error.value());
  return folders;
}

absl::StatusOr<uint64_t> CheckpointFolder::Write(std::vector<SessionCut>* cuts,
                                                 std::atomic<uint64_t>* done) {
  auto written = WriteNext(cuts, done);
  if (written.ok()) {
    if (const absl::Status swapped = Swap(); !swapped.ok()) written = swapped;
  }
  Remove(Path(kNext));
  Remove(Path(kFormer));
  return written;
}

absl::StatusOr<uint64_t> CheckpointFolder::WriteNext(std::vector<SessionCut>* cuts,
                                                     std::atomic<uint64_t>* done) {
  // Sessions are known by their secrets: a server that takes one over gives it another number.
  std::map<std::string, std::string> former;
  if (const auto folders = Folders(); folders.ok()) {
    for (const std::string& folder : *folders) {
      const auto manifest = ReadManifest(folder);
      if (manifest.ok()) former[manifest->secret()] = folder;
    }
  }
  const std::string next = Path(kNext);
  if (mkdir(next.c_str(), 0700) != 0) return FileError(next, errno);
  uint64_t bytes = 0;
  for (size_t i = 0; i < cuts->size(); ++i) {
    SessionCut* const cut = &(*cuts)[i];
    const auto written =
        WriteSession(FolderOf(next, i), former[cut->manifest.secret()], space_, cut, done);
    if (!written.ok()) return written;
    bytes += *written;
  }
  const absl::Status synced = SyncFolder(next);
  if (!synced.ok()) return synced;
  return bytes;
}

absl::Status CheckpointFolder::Swap() {
  const std::string sessions = Path(kSessions);
  const absl::Status away = Rename(sessions, Path(kFormer));
  if (!away.ok() && !absl::IsNotFound(away)) return away;
  absl::Status swapped = Rename(Path(kNext), sessions);
  if (swapped.ok()) swapped = SyncFolder(dir_);
  if (swapped.ok() || !away.ok()) return swapped;
  Remove(sessions);
  if (const absl::Status back = Rename(Path(kFormer), sessions); !back.ok()) return back;
  return swapped;
}

absl::StatusOr<std::vector<SavedSession>> CheckpointFolder::Manifests() const {
  const auto folders = Folders();
  if (!folders.ok()) return folders.status();
  std::vector<SavedSession> manifests;
  for (const std::string& folder : *folders) {
    auto manifest = ReadManifest(folder);
    if (!manifest.ok()) return manifest.status();
    manifests.push_back(*std::move(manifest));
  }
  return manifests;
}

absl::StatusOr<std::vector<SessionCut>> CheckpointFolder::Read(std::vector<SavedSession> manifests,
                                                               std::atomic<uint64_t>* done) const {
  std::vector<SessionCut> cuts;
  for (size_t i = 0; i < manifests.size(); ++i) {
    auto cut = ReadSession(FolderOf(Path(kSessions), i), std::move(manifests[i]), space_, done);
    if (!cut.ok()) return cut.status();
    cuts.push_back(*std::move(cut));
  }
  return cuts;
}

}  // namespace warpline::server
