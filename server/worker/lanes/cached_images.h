// Lets a session find module images that its tenant loaded before, and leave new ones.
#ifndef WARPLINE_SERVER_WORKER_LANES_CACHED_IMAGES_H_
#define WARPLINE_SERVER_WORKER_LANES_CACHED_IMAGES_H_

#include <cstdint>

#include "common/crypto/content_hash.h"
#include "common/unique_fd.h"
#include "server/worker/lanes/decoder_thread.h"
#include "server/worker/lanes/image.h"

namespace warpline::worker {

// The place where images are kept between sessions. Thread-safe, except for Find().
class ImageCache {
 public:
  virtual ~ImageCache() = default;
  // Returns memory with the `bytes` bytes that have this hash, which does not change any more, or
  // an invalid descriptor when there is none. Waits for the answer, but not for ever.
  virtual UniqueFd Find(const ContentHash& hash, uint64_t bytes) RUNS_ON(decoder_thread) = 0;
  // Offers an image for later sessions. The caller keeps `image`.
  virtual void Keep(int image, uint64_t bytes) = 0;
};

// Thread-safe, except for Use(), which is called before the first command.
class CachedImages {
 public:
  // Asks `cache` (borrowed, or null) from now on. Not to be used while a journal is replayed,
  // because a replay must not depend on what the server still has.
  void Use(ImageCache* cache) RUNS_ON(decoder_thread) { cache_ = cache; }

  // Whether an image of this size may be in the cache and is worth keeping.
  bool Takes(uint64_t bytes) const;
  // Calls ImageCache::Find(), for an image that Takes() allows.
  UniqueFd Find(const ContentHash& hash, uint64_t bytes) RUNS_ON(decoder_thread) {
    return cache_->Find(hash, bytes);
  }
  // Offers `image`, of which a module was made.
  void Keep(const Image& image);

 private:
  ImageCache* cache_ = nullptr;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_CACHED_IMAGES_H_
