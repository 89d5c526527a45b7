// Where a session's worker finds module images that its tenant loaded before, and leaves new ones.
#ifndef WARPLINE_SERVER_WORKER_LANES_IMAGE_CACHE_H_
#define WARPLINE_SERVER_WORKER_LANES_IMAGE_CACHE_H_

#include <cstdint>

#include "common/crypto/content_hash.h"
#include "common/mutex.h"
#include "common/unique_fd.h"

namespace warpline::worker {

class ImageCache {
 public:
  virtual ~ImageCache() = default;
  // Memory with the `bytes` bytes that have this hash, which nobody changes any more; invalid when
  // there is none. Waits for the answer, but not for ever. One thread at a time.
  virtual UniqueFd Find(const ContentHash& hash, uint64_t bytes) = 0;
  // Offers an image for later; `image` stays the caller's.
  virtual void Keep(int image, uint64_t bytes) = 0;
};

// The one that the server keeps, reached by the control socket (proto/worker.proto). Thread-safe,
// but for the rule of Find().
class ServerImageCache final : public ImageCache {
 public:
  // `socket` is borrowed.
  explicit ServerImageCache(int socket) : socket_(socket) {}

  UniqueFd Find(const ContentHash& hash, uint64_t bytes) override;
  void Keep(int image, uint64_t bytes) override;

  // The answer that the socket's reader got.
  void Deliver(UniqueFd image);

 private:
  const int socket_;
  Mutex mu_;
  CondVar delivered_;
  // Asked and not answered. Stays so when the wait was given up: a second question is not allowed.
  bool waiting_ ABSL_GUARDED_BY(mu_) = false;
  UniqueFd answer_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_IMAGE_CACHE_H_
