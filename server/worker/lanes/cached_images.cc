#include "server/worker/lanes/cached_images.h"

#include "proto/frames.h"

namespace warpline::worker {

bool CachedImages::Takes(uint64_t bytes) const {
  return cache_ != nullptr && bytes >= kMinCachedImage;
}

void CachedImages::Keep(const Image& image) {
  if (cache_ != nullptr && image.fd() >= 0) cache_->Keep(image.fd(), image.total());
}

}  // namespace warpline::worker
