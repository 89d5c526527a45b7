#include "scheduler/page/view_cache.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/crypto/content_hash.h"
#include "scheduler/page/pool_json.h"
#include "scheduler/page/pool_view.h"

namespace warpline::scheduler::page {

absl::StatusOr<std::shared_ptr<ViewCache::Shown>> ViewCache::Current() {
  const absl::Time now = clock_();
  {
    MutexLock lock(&mu_);
    const absl::Duration age = shown_ == nullptr ? absl::InfiniteDuration() : now - shown_->taken;
    if (age < kAge || (taking_ && age < kAgeWhileTaken)) return shown_;
    taking_ = true;
  }
  auto picture = source_->Take();
  MutexLock lock(&mu_);
  taking_ = false;
  if (!picture.ok()) return picture.status();
  auto shown = std::make_shared<Shown>();
  shown->taken = now;
  shown->picture = *std::move(picture);
  shown_ = shown;
  return shown;
}

absl::StatusOr<std::shared_ptr<const View>> ViewCache::ViewFor(const Viewer& viewer) {
  const auto shown = Current();
  if (!shown.ok()) return shown.status();
  const PoolPicture& picture = (*shown)->picture;
  MutexLock lock(&(*shown)->mu);
  auto& kept = (*shown)->views[viewer.is_operator ? "operator" : "tenant " + viewer.tenant];
  if (kept != nullptr) return kept;
  auto view = std::make_shared<View>();
  view->json = viewer.is_operator
                   ? PoolJson(picture.pool, viewer, picture.leader)
                   : PoolJson(SeenByTenant(picture.pool, viewer.tenant), viewer, picture.leader);
  ContentHash hash;
  if (HashContent(view->json, &hash)) view->etag = absl::StrCat("\"", HashText(hash), "\"");
  kept = std::move(view);
  return kept;
}

}  // namespace warpline::scheduler::page
