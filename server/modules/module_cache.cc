#include "server/modules/module_cache.h"

#include <utility>

#include "common/steady_time.h"

namespace warpline::server {

void ModuleCache::Find(const std::string& tenant, const ContentHash& hash, uint64_t bytes,
                       Found found) {
  finder_.Post([this, tenant, hash, bytes, found = std::move(found)] {
    auto image = store_->Find(tenant, hash, bytes);
    auto shared = std::make_shared<UniqueFd>();
    if (image.ok()) *shared = *std::move(image);
    found(std::move(shared));
  });
}

void ModuleCache::Keep(const std::string& tenant, const std::string& payer,
                       std::shared_ptr<UniqueFd> image, uint64_t bytes,
                       std::function<void(const absl::StatusOr<ContentHash>&)> done) {
  bool may = false;
  {
    MutexLock lock(&mu_);
    may = rates_.Take(payer, bytes, SteadyNow());
  }
  keeper_.Post([this, tenant, may, image = std::move(image), bytes, done = std::move(done)] {
    if (!may) return done(absl::ResourceExhaustedError("too much was stored of late"));
    // An image that cannot be stored is sent again next time; the store counts the failure.
    done(store_->Keep(tenant, image->get(), bytes));
  });
}

}  // namespace warpline::server
