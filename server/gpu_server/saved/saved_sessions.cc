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
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/content_hash.h"
#include "common/sealed_memory.h"
#include "common/text_file.h"
#include "common/transfer_all.h"
#include "common/version.h"
#include "server/hostlink/handover/journal_file.h"
#include "server/hostlink/handover/variable_file.h"

namespace warpline::server {
namespace {

using warpline_internal::SavedFile;
using warpline_internal::SavedSession;

constexpr char kSaved[] = "session";
constexpr char kPartial[] = "partial";
constexpr char kTaken[] = "taken";
constexpr char kManifest[] = "manifest";
constexpr char kMemory[] = "memory";
constexpr char kJournal[] = "journal";
constexpr char kVariables[] = "variables";
constexpr char kStaging[] = "staging";

// More is no session's.
constexpr int kMostStaging = 16;
constexpr uint64_t kMostStagingBytes = 64u << 20;
constexpr size_t kSecretBytes = 16;
constexpr size_t kMostNameBytes = 80;
constexpr uint32_t kOldestFormat = 1;
constexpr uint32_t kFormatWithShared = 2;
// Leaves room for the sessions of this server.
constexpr uint64_t kMostNumber = uint64_t{1} << 62;

// Frames that a client did not acknowledge take most of it (SessionLink::kMaxKeptBytes).
constexpr uint64_t kMostManifestBytes = 64u << 20;
constexpr size_t kPieceBytes = 1u << 20;

// In front of the bytes of one part of a sparse file.
struct ExtentHead {
  uint64_t offset;
  uint64_t bytes;
};

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

// Writes a file and hashes what it holds.
class Writer {
 public:
  static absl::StatusOr<std::unique_ptr<Writer>> Create(const std::string& folder,
                                                        const char* name) {
    const std::string path = absl::StrCat(folder, "/", name);
    UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd.valid()) return Failed(path, errno);
    return std::unique_ptr<Writer>(new Writer(path, name, std::move(fd)));
  }

  absl::Status Add(std::string_view bytes) {
    hasher_.Add(bytes);
    bytes_ += bytes.size();
    const Transfer written = TransferAll(bytes.size(), [&](uint64_t done, uint64_t left) {
      return write(fd_.get(), bytes.data() + done, left);
    });
    if (written.bytes == bytes.size()) return absl::OkStatus();
    return Failed(path_, written.error == 0 ? EIO : written.error);
  }

  // Adds `bytes` of another file, from `offset` on.
  absl::Status AddFrom(int from, uint64_t offset, uint64_t bytes) {
    std::string piece;
    while (bytes > 0) {
      piece.resize(std::min<uint64_t>(bytes, kPieceBytes));
      const Transfer got = TransferAll(piece.size(), [&](uint64_t done, uint64_t left) {
        return pread(from, piece.data() + done, left, static_cast<off_t>(offset + done));
      });
      if (got.bytes < piece.size()) {
        return absl::InternalError("the session's memory cannot be read");
      }
      if (const absl::Status added = Add(piece); !added.ok()) return added;
      offset += piece.size();
      bytes -= piece.size();
    }
    return absl::OkStatus();
  }

  // The disk has it when this returns.
  absl::Status Finish(SavedFile* file) {
    if (fsync(fd_.get()) != 0) return Failed(path_, errno);
    ContentHash hash;
    if (!hasher_.Finish(&hash)) return absl::InternalError("OpenSSL cannot hash");
    file->set_name(name_);
    file->set_bytes(bytes_);
    file->set_sha256(std::string(hash.begin(), hash.end()));
    return absl::OkStatus();
  }

 private:
  Writer(std::string path, const char* name, UniqueFd fd)
      : path_(std::move(path)), name_(name), fd_(std::move(fd)) {}

  const std::string path_;
  const std::string name_;
  const UniqueFd fd_;
  ContentHasher hasher_;
  uint64_t bytes_ = 0;
};

// Reads a file of the manifest's from its beginning to its end.
class Reader {
 public:
  static absl::StatusOr<std::unique_ptr<Reader>> Open(const std::string& folder, const char* name,
                                                      const SavedFile& file) {
    const std::string path = absl::StrCat(folder, "/", name);
    UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd.valid()) return Failed(path, errno);
    struct stat info;
    if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return Malformed(path, "not a file");
    if (file.name() != name || static_cast<uint64_t>(info.st_size) != file.bytes()) {
      return Lost(path);
    }
    return std::unique_ptr<Reader>(new Reader(path, file, std::move(fd)));
  }

  uint64_t left() const { return left_; }
  const std::string& path() const { return path_; }

  absl::Status Next(char* to, size_t bytes) {
    if (bytes > left_) return Malformed(path_, "it ends too early");
    const Transfer got = TransferAll(
        bytes, [&](uint64_t done, uint64_t left) { return read(fd_.get(), to + done, left); });
    if (got.error != 0) return Failed(path_, got.error);
    if (got.bytes < bytes) return Lost(path_);
    hasher_.Add({to, bytes});
    left_ -= bytes;
    return absl::OkStatus();
  }

  // Copies `bytes` to another file, at `offset`.
  absl::Status NextTo(int to, uint64_t offset, uint64_t bytes) {
    std::string piece;
    while (bytes > 0) {
      piece.resize(std::min<uint64_t>(bytes, kPieceBytes));
      if (const absl::Status read = Next(piece.data(), piece.size()); !read.ok()) return read;
      const Transfer put = TransferAll(piece.size(), [&](uint64_t done, uint64_t left) {
        return pwrite(to, piece.data() + done, left, static_cast<off_t>(offset + done));
      });
      if (put.bytes < piece.size()) {
        return absl::ResourceExhaustedError("no memory for a saved session");
      }
      offset += piece.size();
      bytes -= piece.size();
    }
    return absl::OkStatus();
  }

  absl::Status Finish() {
    ContentHash hash;
    if (left_ != 0) return Malformed(path_, "it has more than it should");
    if (!hasher_.Finish(&hash)) return absl::InternalError("OpenSSL cannot hash");
    const bool same = std::equal(hash.begin(), hash.end(), sha256_.begin(), sha256_.end(),
                                 [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); });
    return same ? absl::OkStatus() : Lost(path_);
  }

 private:
  Reader(std::string path, const SavedFile& file, UniqueFd fd)
      : path_(std::move(path)), sha256_(file.sha256()), fd_(std::move(fd)), left_(file.bytes()) {}

  const std::string path_;
  const std::string sha256_;
  const UniqueFd fd_;
  ContentHasher hasher_;
  uint64_t left_;
};

// Writes what a sparse file holds.
absl::Status WriteExtents(const std::string& folder, const char* name, int from, SavedFile* file) {
  auto writer = Writer::Create(folder, name);
  if (!writer.ok()) return writer.status();
  off_t end = 0;
  while (true) {
    const off_t begin = lseek(from, end, SEEK_DATA);
    if (begin < 0 && errno == ENXIO) break;
    if (begin < 0 || (end = lseek(from, begin, SEEK_HOLE)) < 0) return Failed(name, errno);
    const ExtentHead head = {static_cast<uint64_t>(begin), static_cast<uint64_t>(end - begin)};
    absl::Status added = (*writer)->Add({reinterpret_cast<const char*>(&head), sizeof(head)});
    if (added.ok()) added = (*writer)->AddFrom(from, head.offset, head.bytes);
    if (!added.ok()) return added;
  }
  return (*writer)->Finish(file);
}

// Fills memory of `most` zeros with what WriteExtents() wrote.
absl::Status ReadExtents(const std::string& folder, const char* name, const SavedFile& file, int to,
                         uint64_t most) {
  auto reader = Reader::Open(folder, name, file);
  if (!reader.ok()) return reader.status();
  uint64_t end = 0;
  while ((*reader)->left() > 0) {
    ExtentHead head;
    absl::Status read = (*reader)->Next(reinterpret_cast<char*>(&head), sizeof(head));
    if (!read.ok()) return read;
    if (head.offset < end || head.offset > most || head.bytes > most - head.offset) {
      return Malformed((*reader)->path(), "an extent outside the file");
    }
    read = (*reader)->NextTo(to, head.offset, head.bytes);
    if (!read.ok()) return read;
    end = head.offset + head.bytes;
  }
  return (*reader)->Finish();
}

std::string StagingName(size_t number) { return absl::StrCat(kStaging, "-", number); }

std::string BitsOf(const std::vector<bool>& used) {
  std::string bits((used.size() + 7) / 8, '\0');
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) bits[i / 8] = static_cast<char>(bits[i / 8] | (1 << (i % 8)));
  }
  return bits;
}

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
  manifest.set_format(manifest.shared_size() > 0 ? kFormatWithShared : kOldestFormat);
  manifest.set_server_version(kVersion);
  absl::Status written =
      WriteExtents(folder, kJournal, cut->journal.get(), manifest.mutable_journal());
  if (written.ok() && cut->variables.valid()) {
    written = WriteExtents(folder, kVariables, cut->variables.get(), manifest.mutable_variables());
  }
  for (size_t i = 0; i < cut->staging.size() && written.ok(); ++i) {
    written = WriteExtents(folder, StagingName(i).c_str(), cut->staging[i].get(),
                           manifest.add_staging_file());
  }
  if (!written.ok()) return written;
  auto memory = Writer::Create(folder, kMemory);
  if (!memory.ok()) return memory.status();
  if (cut->away != nullptr) {
    manifest.set_used(BitsOf(cut->away->used));
    for (const SwapSpace::Extent& extent : cut->away->place.extents()) {
      written = (*memory)->AddFrom(space_->block_fd(extent.block), extent.offset, extent.bytes);
      if (!written.ok()) return written;
    }
  }
  if (written = (*memory)->Finish(manifest.mutable_memory()); !written.ok()) return written;
  auto file = Writer::Create(folder, kManifest);
  if (!file.ok()) return file.status();
  SavedFile unused;
  written = (*file)->Add(manifest.SerializeAsString());
  return written.ok() ? (*file)->Finish(&unused) : written;
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
  SavedSession manifest;
  if (!manifest.ParseFromString(bytes)) return Malformed(path, "not a manifest");
  if (manifest.format() < kOldestFormat || manifest.format() > kSavedSessionFormat) {
    return absl::FailedPreconditionError(absl::StrCat(path, " has format ", manifest.format(),
                                                      ", and this server reads ", kOldestFormat,
                                                      " to ", kSavedSessionFormat));
  }
  const uint32_t has = manifest.shared_size() > 0 ? kFormatWithShared : kOldestFormat;
  if (has > manifest.format()) return Malformed(path, "shared memory in a format without it");
  if (manifest.session() != session) return Malformed(path, "the manifest of another session");
  if (manifest.secret().size() != kSecretBytes)
    return Malformed(path, "a session without a secret");
  return manifest;
}

absl::Status SavedSessions::ReadStaging(const std::string& folder, SessionCut* cut) const {
  const SavedSession& manifest = cut->manifest;
  if (manifest.staging_size() > kMostStaging ||
      manifest.staging_size() != manifest.staging_file_size()) {
    return Malformed(folder, "more staging memory than a session has");
  }
  for (int i = 0; i < manifest.staging_size(); ++i) {
    const uint64_t bytes = manifest.staging(i).bytes();
    if (bytes > kMostStagingBytes) {
      return Malformed(folder, "more staging memory than a session has");
    }
    auto memory = NewSealedMemory("warpline-host", bytes);
    if (!memory.ok()) return memory.status();
    const absl::Status read = ReadExtents(folder, StagingName(static_cast<size_t>(i)).c_str(),
                                          manifest.staging_file(i), memory->get(), bytes);
    if (!read.ok()) return read;
    cut->staging.push_back(*std::move(memory));
  }
  return absl::OkStatus();
}

absl::Status SavedSessions::ReadMemory(const std::string& folder, SessionCut* cut) const {
  const SavedSession& manifest = cut->manifest;
  auto reader = Reader::Open(folder, kMemory, manifest.memory());
  if (!reader.ok()) return reader.status();
  uint64_t bytes = 0;
  for (const auto& range : manifest.range()) {
    if (range.bytes() == 0 || range.bytes() % SwapSpace::kGranule != 0 ||
        range.bytes() > (uint64_t{1} << 50) - bytes) {
      return Malformed((*reader)->path(), "a range of no size that there is");
    }
    bytes += range.bytes();
  }
  const uint64_t granules = bytes / SwapSpace::kGranule;
  if (manifest.used().size() != (granules + 7) / 8) {
    return Malformed((*reader)->path(), "it is of other ranges");
  }
  auto away = std::make_shared<AwayMemory>();
  for (uint64_t i = 0; i < granules; ++i) {
    away->used.push_back((manifest.used()[i / 8] >> (i % 8) & 1) != 0);
  }
  if (away->held_bytes() != manifest.memory().bytes()) {
    return Malformed((*reader)->path(), "it is of other ranges");
  }
  if (granules == 0) return (*reader)->Finish();
  if (space_ == nullptr) {
    return absl::FailedPreconditionError(
        "the server has no host memory for saved sessions (--swap_host)");
  }
  auto place = space_->Take(away->held_bytes());
  if (!place.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(away->held_bytes(), " bytes of a saved session do not fit into --swap_host: ",
                     std::string(place.status().message())));
  }
  away->place = *std::move(place);
  for (const SwapSpace::Extent& extent : away->place.extents()) {
    const absl::Status read =
        (*reader)->NextTo(space_->block_fd(extent.block), extent.offset, extent.bytes);
    if (!read.ok()) return read;
  }
  if (const absl::Status whole = (*reader)->Finish(); !whole.ok()) return whole;
  cut->away = std::move(away);
  return absl::OkStatus();
}

absl::StatusOr<SessionCut> SavedSessions::Read(uint64_t session) const {
  const std::string folder = FolderOf(kSaved, session);
  auto manifest = ReadManifest(session);
  if (!manifest.ok()) return manifest.status();
  SessionCut cut;
  cut.manifest = *std::move(manifest);
  auto journal = JournalFile::CreateMemory();
  if (!journal.ok()) return journal.status();
  cut.journal = *std::move(journal);
  absl::Status read =
      ReadExtents(folder, kJournal, cut.manifest.journal(), cut.journal.get(), kJournalBytes);
  if (!read.ok()) return read;
  if (!cut.manifest.variables().name().empty()) {
    auto variables = CreateVariableFile();
    if (!variables.ok()) return variables.status();
    cut.variables = *std::move(variables);
    read = ReadExtents(folder, kVariables, cut.manifest.variables(), cut.variables.get(),
                       kVariableFileBytes);
    if (!read.ok()) return read;
  }
  if (read = ReadStaging(folder, &cut); !read.ok()) return read;
  if (read = ReadMemory(folder, &cut); !read.ok()) return read;
  return cut;
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
