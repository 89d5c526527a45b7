#include "server/worker/executors/cached_images.h"

#include "proto/frames.h"

namespace warpline::worker {

bool CachedImages::Takes(uint64_t bytes) const {
  return cache_ != nullptr && bytes >= kMinCachedImage;
}

void CachedImages::OnLoaded(const Image& image) {
  // Who gave the image out knows it.
  if (image.adopted()) return;
  if (cache_ != nullptr && image.fd() >= 0) return cache_->Keep(image.fd(), image.total());
  ContentHash hash;
  if (record_ != nullptr && HashContent(image.bytes(), &hash)) {
    record_->OnLoaded(hash, image.total());
  }
}

}  // namespace warpline::worker
