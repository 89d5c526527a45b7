// Runs the module store on threads of its own, because hashing and disks must not hold up the
// control loop.
//
// Looking up and storing have a thread each, so that a look-up does not wait for storing. Payers
// (LeaseMembership::payer()) look up by turns: a large image takes a good part of a second, and one
// that asks for many waits for its own. Without a scheduler all clients have the name of one
// tenant, and still each lease its turns.
#ifndef WARPLINE_SERVER_GPU_SERVER_MODULES_MODULE_CACHE_H_
#define WARPLINE_SERVER_GPU_SERVER_MODULES_MODULE_CACHE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/crypto/content_hash.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "server/gpu_server/modules/keep_rates.h"
#include "server/gpu_server/modules/module_store.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {

// Thread-safe. The destructor waits for what is under way; callbacks may come until then.
class ModuleCache {
 public:
  explicit ModuleCache(std::unique_ptr<ModuleStore> store, const KeepRateOptions& rates = {})
      : store_(std::move(store)), rates_(rates) {}

  // Looks up an image that `tenant` may see when it is the turn of `payer`, and calls `found` on a
  // thread of the cache with its sealed memory, or with no descriptor when it is not there.
  using Found = std::function<void(std::shared_ptr<UniqueFd> image)>;
  void Find(const std::string& tenant, const std::string& payer, const ContentHash& hash,
            uint64_t bytes, Found found);

  // Stores what `image` holds; see ModuleStore::Keep(). Calls `done` on a thread of the cache, with
  // the hash or why it was not stored: RESOURCE_EXHAUSTED when `payer` has had as much stored as it
  // may for now.
  void Keep(const std::string& tenant, const std::string& payer, std::shared_ptr<UniqueFd> image,
            uint64_t bytes, std::function<void(const absl::StatusOr<ContentHash>&)> done);

  const ModuleStore& store() const { return *store_; }

 private:
  // Makes one look-up, of the payer whose turn it is.
  void FindNext();

  const std::unique_ptr<ModuleStore> store_;
  Mutex mu_;
  // The look-ups that wait, by payer, and the payers that have some in the order of their turns.
  std::map<std::string, std::deque<std::function<void()>>> waiting_ ABSL_GUARDED_BY(mu_);
  std::deque<std::string> turns_ ABSL_GUARDED_BY(mu_);
  KeepRates rates_ ABSL_GUARDED_BY(mu_);
  EventLoop finder_{"module-find"};
  EventLoop keeper_{"module-keep"};
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MODULES_MODULE_CACHE_H_
