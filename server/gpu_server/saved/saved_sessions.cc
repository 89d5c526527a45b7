#include "server/gpu_server/saved/saved_sessions.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/text_file.h"
#include "server/gpu_server/saved/file_errors.h"
#include "server/gpu_server/saved/session_folder.h"

namespace warpline::server {
namespace {

using warpline_internal::SavedSession;

constexpr char kSaved[] = "session";
constexpr char kPartial[] = "partial";
constexpr char kTaken[] = "taken";
constexpr size_t kMostNameBytes = 80;
// Leaves room for the sessions of this server.
constexpr uint64_t kMostNumber = uint64_t{1} << 62;

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
  auto lock = LockFolder(dir);
  if (!lock.ok()) return lock.status();
  // A session that was being written or taken over when its server was killed is lost.
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename();
    if (NumberIn(name, kPartial) != 0 || NumberIn(name, kTaken) != 0) {
      std::error_code ignored;
      std::filesystem::remove_all(entry.path(), ignored);
    }
  }
  return std::unique_ptr<SavedSessions>(new SavedSessions(std::move(dir), space, *std::move(lock)));
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
    auto manifest = ManifestOf(session);
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
  absl::Status written = WriteSession(folder, "", space_, cut).status();
  const std::string to = FolderOf(kSaved, session);
  if (written.ok() && rename(folder.c_str(), to.c_str()) != 0) written = FileError(to, errno);
  if (!written.ok()) {
    std::filesystem::remove_all(folder, ignored);
    return written;
  }
  written = SyncFolder(dir_);
  if (!written.ok()) std::filesystem::remove_all(to, ignored);
  return written;
}

absl::StatusOr<SavedSession> SavedSessions::ManifestOf(uint64_t session) const {
  const std::string folder = FolderOf(kSaved, session);
  auto manifest = ReadManifest(folder);
  if (manifest.ok() && manifest->session() != session) {
    return MalformedFile(folder, "the manifest of another session");
  }
  return manifest;
}

absl::StatusOr<SessionCut> SavedSessions::Read(uint64_t session) const {
  auto manifest = ManifestOf(session);
  if (!manifest.ok()) return manifest.status();
  return ReadSession(FolderOf(kSaved, session), *std::move(manifest), space_);
}

absl::Status SavedSessions::Take(uint64_t session) {
  const std::string from = FolderOf(kSaved, session);
  if (rename(from.c_str(), FolderOf(kTaken, session).c_str()) != 0) return FileError(from, errno);
  return SyncFolder(dir_);
}

absl::Status SavedSessions::PutBack(uint64_t session) {
  const std::string from = FolderOf(kTaken, session);
  if (rename(from.c_str(), FolderOf(kSaved, session).c_str()) != 0) return FileError(from, errno);
  return SyncFolder(dir_);
}

void SavedSessions::Forget(uint64_t session) {
  std::error_code ignored;
  std::filesystem::remove_all(FolderOf(kTaken, session), ignored);
}

}  // namespace warpline::server
