#include "server/gpu_server/modules/module_cache.h"

#include <utility>

#include "common/steady_time.h"

namespace warpline::server {

void ModuleCache::Find(const std::string& tenant, const std::string& payer, const ContentHash& hash,
                       uint64_t bytes, Found found) {
  auto find = [this, tenant, hash, bytes, found = std::move(found)] {
    auto image = store_->Find(tenant, hash, bytes);
    auto shared = std::make_shared<UniqueFd>();
    if (image.ok()) *shared = *std::move(image);
    found(std::move(shared));
  };
  {
    MutexLock lock(&mu_);
    auto& of_payer = waiting_[payer];
    if (of_payer.empty()) turns_.push_back(payer);
    of_payer.push_back(std::move(find));
  }
  finder_.Post([this] { FindNext(); });
}

void ModuleCache::FindNext() {
  std::function<void()> find;
  {
    MutexLock lock(&mu_);
    const std::string payer = std::move(turns_.front());
    turns_.pop_front();
    const auto of_payer = waiting_.find(payer);
    find = std::move(of_payer->second.front());
    of_payer->second.pop_front();
    if (of_payer->second.empty()) {
      waiting_.erase(of_payer);
    } else {
      turns_.push_back(payer);
    }
  }
  find();
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
