// A session's way to module images that its tenant loaded before, and to leaving new ones.
#ifndef WARPLINE_SERVER_WORKER_LANES_CACHED_IMAGES_H_
#define WARPLINE_SERVER_WORKER_LANES_CACHED_IMAGES_H_

#include <cstdint>

#include "common/crypto/content_hash.h"
#include "common/unique_fd.h"
#include "server/worker/lanes/image.h"

namespace warpline::worker {

// Where images are kept between sessions. Thread-safe, but for the rule of Find().
class ImageCache {
 public:
  virtual ~ImageCache() = default;
  // Memory with the `bytes` bytes that have this hash, which nobody changes any more; invalid when
  // there is none. Waits for the answer, but not for ever. One thread at a time.
  virtual UniqueFd Find(const ContentHash& hash, uint64_t bytes) = 0;
  // Offers an image for later; `image` stays the caller's.
  virtual void Keep(int image, uint64_t bytes) = 0;
};

// Thread-safe, but for Use(), which belongs to the time before the first command.
class CachedImages {
 public:
  // Asks `cache` (borrowed, or null) from now on. Not while a journal is replayed: that must not
  // depend on what the server still has.
  void Use(ImageCache* cache) { cache_ = cache; }

  // Whether an image of this size may be there, and is worth being kept.
  bool Takes(uint64_t bytes) const;
  // As ImageCache's, for an image that Takes() allows.
  UniqueFd Find(const ContentHash& hash, uint64_t bytes) { return cache_->Find(hash, bytes); }
  // A module was made of `image`.
  void Keep(const Image& image);

 private:
  ImageCache* cache_ = nullptr;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_CACHED_IMAGES_H_
