// Lets a session find module images that its tenant loaded before, and leave new ones.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_CACHED_IMAGES_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_CACHED_IMAGES_H_

#include <cstdint>

#include "common/crypto/content_hash.h"
#include "common/unique_fd.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/executors/image.h"

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

// Hears of images that modules were made of and of which the image cache has not heard: small ones,
// and all of them where there is no cache. Thread-safe.
class ModuleRecord {
 public:
  virtual ~ModuleRecord() = default;
  virtual void OnLoaded(const ContentHash& hash, uint64_t bytes) = 0;
};

// Thread-safe, except for Use() and Record(), which are called before the first command.
class CachedImages {
 public:
  // Asks `cache` (borrowed, or null) from now on. Not to be used while a journal is replayed,
  // because a replay must not depend on what the server still has.
  void Use(ImageCache* cache) RUNS_ON(decoder_thread) { cache_ = cache; }
  // Tells `record` (borrowed, or null) from now on. What a replay loads was told before.
  void Record(ModuleRecord* record) RUNS_ON(decoder_thread) { record_ = record; }

  // Whether an image of this size may be in the cache and is worth keeping.
  bool Takes(uint64_t bytes) const;
  // Where an image of this size gets a file from that the cache can be offered; null for none.
  ImageFiles* FilesFor(uint64_t bytes) { return Takes(bytes) ? &files_ : nullptr; }
  // Calls ImageCache::Find(), for an image that Takes() allows.
  UniqueFd Find(const ContentHash& hash, uint64_t bytes) RUNS_ON(decoder_thread) {
    return cache_->Find(hash, bytes);
  }
  // A module was made of `image`, which is offered to the cache, or hashed and told.
  void OnLoaded(const Image& image);

 private:
  ImageCache* cache_ = nullptr;
  ModuleRecord* record_ = nullptr;
  ImageFiles files_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_CACHED_IMAGES_H_
