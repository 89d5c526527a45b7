// Stores module images on disk by the hash of their content, so that what a program loads crosses
// the network only once.
//
// Layout: DIR/SCOPE/HASH, where SCOPE stands for a tenant, or is "shared". What one tenant has
// stored no other can ask for, unless the operator shares the store. A file's name is the hash that
// this class computed while it wrote the file. Its content is hashed again whenever it is read, and
// a file that disagrees is dropped. A file's modification time is the time of its last use, so that
// the order of eviction survives restarts.
//
// When the store holds more than the limit, the scope that holds most loses what it has not used
// for the longest time; so does a scope that holds too many images.
#ifndef WARPLINE_SERVER_GPU_SERVER_MODULES_MODULE_STORE_H_
#define WARPLINE_SERVER_GPU_SERVER_MODULES_MODULE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/crypto/content_hash.h"
#include "common/log/log_budget.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "proto/frames.h"
#include "server/hostlink/handover/counters.h"

namespace warpline::server {

struct ModuleStoreOptions {
  std::string dir;
  uint64_t max_bytes = 4ull << 30;
  // The limits for one image; larger and smaller ones are not stored. Clients send small ones anew.
  uint64_t max_image_bytes = 256ull << 20;
  uint64_t min_image_bytes = kMinCachedImage;
  // What a file takes on the disk is counted, not what is in it: multiples of this.
  uint64_t block_bytes = 4096;
  // The images of one scope, each of which costs the server some memory.
  size_t max_scope_images = 16384;
  // Makes one scope for all tenants.
  bool shared = false;
};

struct ModuleStoreCounters {
  Counter hits;
  Counter misses;
  Counter hit_bytes;  // Bytes that clients did not have to send.
  Counter stored;
  Counter stored_bytes;
  Counter evictions;
  Counter corrupted;  // Files that were dropped because their content had changed.
  Counter failures;   // Images that the disk did not take.
};

// Thread-safe. Reads and writes files in the calling thread, without a lock. Only one process at a
// time can have a folder.
class ModuleStore {
 public:
  // Makes the folder, and takes over what is in it. FAILED_PRECONDITION when another process has
  // the folder; otherwise the error of the file system.
  static absl::StatusOr<std::unique_ptr<ModuleStore>> Open(const ModuleStoreOptions& options);
  ModuleStore(const ModuleStore&) = delete;
  ModuleStore& operator=(const ModuleStore&) = delete;

  // Returns the image of `bytes` bytes with this hash that `tenant` has stored, in sealed memory of
  // its own that cannot be changed any more. NOT_FOUND when there is none.
  absl::StatusOr<UniqueFd> Find(const std::string& tenant, const ContentHash& hash, uint64_t bytes);

  // Stores the first `bytes` bytes of `image` (borrowed) under the hash that is computed from them,
  // and returns that. The descriptor may come from an untrusted process. INVALID_ARGUMENT when it
  // is not plain memory of at least `bytes` bytes, or when that is too large or too small.
  absl::StatusOr<ContentHash> Keep(const std::string& tenant, int image, uint64_t bytes);

  // On the disk.
  uint64_t bytes() const;
  uint64_t images() const;
  const ModuleStoreCounters& counters() const { return counters_; }

 private:
  struct Entry {
    uint64_t bytes = 0;  // Of the image; the sums count OnDisk().
    uint64_t used = 0;   // The key in Scope::by_use.
  };
  struct Scope {
    uint64_t bytes = 0;
    std::map<std::string, Entry> entries;    // By HashText().
    std::map<uint64_t, std::string> by_use;  // By time of use, the least recently used first.
  };

  ModuleStore(const ModuleStoreOptions& options, UniqueFd folder, UniqueFd lock);

  uint64_t OnDisk(uint64_t bytes) const;
  std::string ScopeOf(const std::string& tenant) const;
  absl::Status AdoptFiles();
  void Insert(const std::string& scope, const std::string& name, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Touch(Scope* scope, const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns false when the image was not there.
  bool Remove(const std::string& scope, const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Evicts images until there is room for `more` bytes on the disk.
  void Evict(uint64_t more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Evicts images of the scope until there is room for another.
  void EvictOf(const std::string& scope) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Evicts what the scope has not used for the longest time.
  void EvictOldest(const std::string& scope) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Copies and hashes the image into a new file `temporary`.
  absl::Status Write(const std::string& temporary, int image, uint64_t bytes, ContentHash* hash);

  const ModuleStoreOptions options_;
  const UniqueFd folder_;
  const UniqueFd lock_;
  ModuleStoreCounters counters_;

  mutable Mutex mu_;
  std::map<std::string, Scope> scopes_ ABSL_GUARDED_BY(mu_);
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t images_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_use_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_temporary_ ABSL_GUARDED_BY(mu_) = 0;
  bool said_failure_ ABSL_GUARDED_BY(mu_) = false;
  // A tenant could fill a disk that is nearly full so that it takes one image and not the next,
  // over and over.
  LogBudget log_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MODULES_MODULE_STORE_H_
