#include "server/gpu_server/modules/module_store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace warpline::server {
namespace {

enum StoreLine : size_t { kChangedLine, kDiskLine, kStoreLineCount };
constexpr LogKind kStoreLines[kStoreLineCount] = {{"files_changed", 10, absl::Minutes(1)},
                                                  {"disk_full", 10, absl::Minutes(1)}};

constexpr char kLockName[] = "lock";
constexpr char kTemporaryPrefix[] = "new-";
constexpr char kShared[] = "shared";
constexpr char kTenantPrefix[] = "tenant-";
// Digits of a tenant's hashed name; enough that no two names meet.
constexpr size_t kScopeDigits = 32;
constexpr size_t kPiece = 1u << 20;

absl::Status Failed(const std::string& what) {
  const int error = errno;
  const std::string text = absl::StrCat(what, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(text) : absl::UnavailableError(text);
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Copies `bytes` bytes from the start of one file to the end of the other, and hashes what it
// writes.
absl::Status CopyHashed(int from, int to, uint64_t bytes, ContentHash* hash) {
  std::string piece(std::min<uint64_t>(bytes, kPiece), '\0');
  ContentHasher hasher;
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got = pread(from, piece.data(), std::min<uint64_t>(piece.size(), bytes - done),
                              static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read");
    if (got == 0) return absl::DataLossError("the file is too short");
    const std::string_view read(piece.data(), static_cast<size_t>(got));
    hasher.Add(read);
    if (!WriteAll(to, read)) return Failed("write");
    done += read.size();
  }
  return hasher.Finish(hash) ? absl::OkStatus() : absl::InternalError("no hash");
}

// Sets the time explicitly: the kernel stamps files with the last timer tick, which is too coarse
// for an order.
void StampUsed(int fd) {
  timespec times[2];
  clock_gettime(CLOCK_REALTIME, &times[0]);
  times[1] = times[0];
  futimens(fd, times);
}

}  // namespace

ModuleStore::ModuleStore(const ModuleStoreOptions& options, UniqueFd folder, UniqueFd lock)
    : options_(options), folder_(std::move(folder)), lock_(std::move(lock)), log_(kStoreLines) {}

absl::StatusOr<std::unique_ptr<ModuleStore>> ModuleStore::Open(const ModuleStoreOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.dir, error);
  if (error) return absl::UnavailableError(absl::StrCat(options.dir, ": ", error.message()));
  UniqueFd folder(open(options.dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return Failed(options.dir);
  // Other users must not see what tenants run.
  if (fchmod(folder.get(), 0700) != 0) return Failed(options.dir);
  UniqueFd lock(openat(folder.get(), kLockName, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return Failed(absl::StrCat(options.dir, "/", kLockName));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("another process uses ", options.dir, " as its module cache"));
  }
  std::unique_ptr<ModuleStore> store(new ModuleStore(options, std::move(folder), std::move(lock)));
  const absl::Status taken = store->AdoptFiles();
  if (!taken.ok()) return taken;
  return store;
}

absl::Status ModuleStore::AdoptFiles() {
  namespace fs = std::filesystem;
  struct Found {
    timespec used;
    std::string scope;
    std::string name;
    uint64_t bytes;
  };
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator scope(options_.dir, error), end; !error && scope != end;
       scope.increment(error)) {
    const std::string scope_name = scope->path().filename();
    if (absl::StartsWith(scope_name, kTemporaryPrefix)) {
      unlinkat(folder_.get(), scope_name.c_str(), 0);
      continue;
    }
    if (scope_name != kShared && !absl::StartsWith(scope_name, kTenantPrefix)) continue;
    std::error_code ignored;
    for (fs::directory_iterator file(scope->path(), ignored); !ignored && file != end;
         file.increment(ignored)) {
      const std::string name = file->path().filename();
      ContentHash hash;
      struct stat status;
      if (!ParseHash(name, &hash) || lstat(file->path().c_str(), &status) != 0 ||
          !S_ISREG(status.st_mode)) {
        continue;
      }
      if (static_cast<uint64_t>(status.st_size) < options_.min_image_bytes) {
        unlinkat(folder_.get(), absl::StrCat(scope_name, "/", name).c_str(), 0);
        continue;
      }
      found.push_back({status.st_mtim, scope_name, name, static_cast<uint64_t>(status.st_size)});
    }
  }
  if (error) return absl::UnavailableError(absl::StrCat(options_.dir, ": ", error.message()));
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec) < std::tie(b.used.tv_sec, b.used.tv_nsec);
  });
  MutexLock lock(&mu_);
  for (const Found& file : found) {
    EvictOf(file.scope);
    Insert(file.scope, file.name, file.bytes);
  }
  Evict(0);
  return absl::OkStatus();
}

std::string ModuleStore::ScopeOf(const std::string& tenant) const {
  if (options_.shared) return kShared;
  ContentHash hash = {};
  HashContent(tenant, &hash);
  return absl::StrCat(kTenantPrefix, HashText(hash).substr(0, kScopeDigits));
}

uint64_t ModuleStore::OnDisk(uint64_t bytes) const {
  return (bytes + options_.block_bytes - 1) / options_.block_bytes * options_.block_bytes;
}

void ModuleStore::Insert(const std::string& scope_name, const std::string& name, uint64_t bytes) {
  Scope& scope = scopes_[scope_name];
  const uint64_t use = ++last_use_;
  scope.entries[name] = {bytes, use};
  scope.by_use[use] = name;
  scope.bytes += OnDisk(bytes);
  bytes_ += OnDisk(bytes);
  ++images_;
}

void ModuleStore::Touch(Scope* scope, const std::string& name) {
  Entry& entry = scope->entries[name];
  scope->by_use.erase(entry.used);
  entry.used = ++last_use_;
  scope->by_use[entry.used] = name;
}

bool ModuleStore::Remove(const std::string& scope_name, const std::string& name) {
  const auto scope = scopes_.find(scope_name);
  if (scope == scopes_.end()) return false;
  const auto entry = scope->second.entries.find(name);
  if (entry == scope->second.entries.end()) return false;
  unlinkat(folder_.get(), absl::StrCat(scope_name, "/", name).c_str(), 0);
  bytes_ -= OnDisk(entry->second.bytes);
  --images_;
  scope->second.bytes -= OnDisk(entry->second.bytes);
  scope->second.by_use.erase(entry->second.used);
  scope->second.entries.erase(entry);
  if (scope->second.entries.empty()) scopes_.erase(scope);
  return true;
}

void ModuleStore::Evict(uint64_t more) {
  while (!scopes_.empty() && bytes_ + more > options_.max_bytes) {
    const auto largest = std::max_element(
        scopes_.begin(), scopes_.end(),
        [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
    EvictOldest(std::string(largest->first));
  }
}

void ModuleStore::EvictOf(const std::string& scope) {
  while (true) {
    const auto found = scopes_.find(scope);
    if (found == scopes_.end()) return;
    if (found->second.entries.size() < options_.max_scope_images) return;
    EvictOldest(scope);
  }
}

void ModuleStore::EvictOldest(const std::string& scope) {
  // A copy, because Remove() destroys what it would refer to.
  const std::string name = scopes_[scope].by_use.begin()->second;
  Remove(scope, name);
  counters_.evictions.Add(1);
}

absl::StatusOr<UniqueFd> ModuleStore::Find(const std::string& tenant, const ContentHash& hash,
                                           uint64_t bytes) {
  const std::string scope_name = ScopeOf(tenant);
  const std::string name = HashText(hash);
  const auto miss = [this](const char* why) {
    counters_.misses.Add(1);
    return absl::NotFoundError(why);
  };
  {
    MutexLock lock(&mu_);
    const auto scope = scopes_.find(scope_name);
    if (scope == scopes_.end()) return miss("nothing is stored");
    const auto entry = scope->second.entries.find(name);
    if (entry == scope->second.entries.end() || entry->second.bytes != bytes) {
      return miss("it is not stored");
    }
    Touch(&scope->second, name);
  }
  const UniqueFd file(openat(folder_.get(), absl::StrCat(scope_name, "/", name).c_str(),
                             O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const bool gone = !file.valid() && errno == ENOENT;
  UniqueFd memory(memfd_create("warpline-module", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if ((!file.valid() && !gone) || !memory.valid()) return miss("no descriptors or memory left");
  ContentHash found = {};
  const absl::Status copied = gone ? absl::DataLossError("the file is gone")
                                   : CopyHashed(file.get(), memory.get(), bytes, &found);
  if (copied.ok() ? found != hash : absl::IsDataLoss(copied)) {
    MutexLock lock(&mu_);
    // The image may have been evicted meanwhile.
    if (Remove(scope_name, name)) {
      counters_.corrupted.Add(1);
      if (const LogPermit permit = log_.Ask(kChangedLine)) {
        permit.Warning("module cache: dropped a file that had changed hash=", name);
      }
    }
    return miss("the file had changed");
  }
  if (!copied.ok()) return miss("it cannot be read");
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) return miss("cannot be sealed");
  StampUsed(file.get());
  counters_.hits.Add(1);
  counters_.hit_bytes.Add(bytes);
  return memory;
}

absl::Status ModuleStore::Write(const std::string& temporary, int image, uint64_t bytes,
                                ContentHash* hash) {
  const UniqueFd file(openat(folder_.get(), temporary.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return Failed(temporary);
  const absl::Status copied = CopyHashed(image, file.get(), bytes, hash);
  StampUsed(file.get());
  return copied;
}

absl::StatusOr<ContentHash> ModuleStore::Keep(const std::string& tenant, int image,
                                              uint64_t bytes) {
  struct stat status;
  // Only plain memory has seals; reading a pipe or a socket could block for ever.
  if (fcntl(image, F_GET_SEALS) < 0 || fstat(image, &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<uint64_t>(status.st_size) < bytes || bytes == 0 ||
      bytes < options_.min_image_bytes ||
      bytes > std::min(options_.max_image_bytes, options_.max_bytes)) {
    return absl::InvalidArgumentError("no image that can be stored");
  }
  std::string temporary;
  {
    MutexLock lock(&mu_);
    temporary = absl::StrCat(kTemporaryPrefix, ++last_temporary_);
  }
  ContentHash hash = {};
  absl::Status written = Write(temporary, image, bytes, &hash);
  const std::string scope = ScopeOf(tenant);
  const std::string name = HashText(hash);
  MutexLock lock(&mu_);
  const auto known = scopes_.find(scope);
  if (written.ok() && known != scopes_.end() && known->second.entries.contains(name)) {
    Touch(&known->second, name);
    unlinkat(folder_.get(), temporary.c_str(), 0);
    return hash;
  }
  if (written.ok()) {
    Evict(OnDisk(bytes));
    EvictOf(scope);
    mkdirat(folder_.get(), scope.c_str(), 0700);
    if (renameat(folder_.get(), temporary.c_str(), folder_.get(),
                 absl::StrCat(scope, "/", name).c_str()) != 0) {
      written = Failed(scope);
    }
  }
  if (!written.ok()) {
    unlinkat(folder_.get(), temporary.c_str(), 0);
    counters_.failures.Add(1);
    if (!std::exchange(said_failure_, true)) {
      if (const LogPermit permit = log_.Ask(kDiskLine)) {
        permit.Warning("module cache: the disk takes no more: ", written.ToString());
      }
    }
    return written;
  }
  said_failure_ = false;
  Insert(scope, name, bytes);
  counters_.stored.Add(1);
  counters_.stored_bytes.Add(bytes);
  return hash;
}

uint64_t ModuleStore::bytes() const {
  MutexLock lock(&mu_);
  return bytes_;
}

uint64_t ModuleStore::images() const {
  MutexLock lock(&mu_);
  return images_;
}

}  // namespace warpline::server
