#include "client_stub/private_tables/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "common/unique_fd.h"

namespace warpline {
namespace {

namespace fs = std::filesystem;

// Precedes the result in its file.
struct Header {
  std::array<char, 8> magic;
  uint64_t bytes;
  ContentHash hash;
};
static_assert(sizeof(Header) == 48);
constexpr std::array<char, 8> kMagic = {'W', 'L', 'C', 'A', 'C', 'H', 'E', '2'};

// The names of files that are being written begin with this; files that are older than kLeftBehind
// were left behind.
constexpr char kUnfinished[] = ".new-";
constexpr auto kLeftBehind = std::chrono::hours(1);

bool ReadAll(int fd, void* to, size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = read(fd, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool WriteAll(int fd, const void* from, size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = write(fd, at, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<size_t>(put);
  }
  return true;
}

// Hashes a result together with its name.
bool HashEntry(const ContentHash& name, std::string_view result, ContentHash* hash) {
  ContentHasher hasher;
  hasher.Add({reinterpret_cast<const char*>(name.data()), name.size()});
  hasher.Add(result);
  return hasher.Finish(hash);
}

}  // namespace

CacheFolder::CacheFolder(std::string path, uint64_t max_bytes)
    : path_(std::move(path)), max_bytes_(max_bytes), unseen_bytes_(max_bytes) {}

bool CacheFolder::Find(const ContentHash& name, std::string* result) {
  if (path_.empty()) return false;
  if (!IsOurs()) return false;
  const UniqueFd file(
      open((path_ + "/" + HashText(name)).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat about;
  Header header;
  // A file of another user is refused, because its code would be run.
  if (file.get() < 0 || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode) ||
      about.st_uid != geteuid() || !ReadAll(file.get(), &header, sizeof(header)) ||
      header.magic != kMagic || header.bytes > kMaxCachedResult ||
      static_cast<uint64_t>(about.st_size) != sizeof(header) + header.bytes) {
    return false;
  }
  std::string found(header.bytes, '\0');
  ContentHash hash;
  if (!ReadAll(file.get(), found.data(), found.size()) || !HashEntry(name, found, &hash) ||
      hash != header.hash) {
    return false;
  }
  futimens(file.get(), nullptr);  // Notes when it was last used.
  *result = std::move(found);
  return true;
}

bool CacheFolder::MakeFolder() const {
  std::error_code error;
  fs::create_directories(fs::path(path_).parent_path(), error);
  return (mkdir(path_.c_str(), 0700) == 0 || errno == EEXIST) && IsOurs();
}

bool CacheFolder::IsOurs() const {
  struct stat about;
  return stat(path_.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid() &&
         (about.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool CacheFolder::Put(const ContentHash& name, std::string_view result) {
  if (path_.empty() || result.size() > std::min(kMaxCachedResult, max_bytes_)) return false;
  Header header = {kMagic, result.size(), {}};
  if (!HashEntry(name, result, &header.hash) || !MakeFolder()) return false;
  std::string unfinished = path_ + "/" + kUnfinished + "XXXXXX";
  UniqueFd file(mkostemp(unfinished.data(), O_CLOEXEC));
  if (file.get() < 0) return false;
  const std::string final_name = path_ + "/" + HashText(name);
  if (!WriteAll(file.get(), &header, sizeof(header)) ||
      !WriteAll(file.get(), result.data(), result.size()) ||
      rename(unfinished.c_str(), final_name.c_str()) != 0) {
    unlink(unfinished.c_str());
    return false;
  }
  // The folder is looked at the first time, and then each time that a sixteenth of the bound may
  // have been added.
  if (unseen_bytes_.fetch_add(result.size()) + result.size() >= max_bytes_ / 16) {
    unseen_bytes_.store(0);
    DropOldest();
  }
  return true;
}

void CacheFolder::DropOldest() {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    uint64_t bytes = 0;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(path_, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // Another process may do the same.
    const uint64_t bytes = it->file_size(gone);
    if (gone) continue;
    const auto used = it->last_write_time(gone);
    if (gone) continue;
    if (it->path().filename().string().starts_with(kUnfinished)) {
      if (now - used > kLeftBehind) fs::remove(it->path(), gone);
      continue;
    }
    ContentHash name;
    if (!ParseHash(it->path().filename().string(), &name)) continue;  // Not one of our files.
    entries.push_back({it->path(), used, bytes});
    total += bytes;
  }
  if (total <= max_bytes_) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= max_bytes_ - max_bytes_ / 8) return;
    std::error_code gone;
    fs::remove(entry.path, gone);
    total -= entry.bytes;
  }
}

}  // namespace warpline
