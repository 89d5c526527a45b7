#include "server/modules/module_cache.h"

#include <utility>

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

void ModuleCache::Keep(const std::string& tenant, std::shared_ptr<UniqueFd> image, uint64_t bytes,
                       std::function<void(const absl::StatusOr<ContentHash>&)> done) {
  keeper_.Post([this, tenant, image = std::move(image), bytes, done = std::move(done)] {
    // An image that cannot be stored is sent again next time; the store counts the failure.
    done(store_->Keep(tenant, image->get(), bytes));
  });
}

}  // namespace warpline::server
