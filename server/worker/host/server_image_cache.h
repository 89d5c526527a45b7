// The image cache that the server keeps, reached through the control socket (proto/worker.proto).
#ifndef WARPLINE_SERVER_WORKER_HOST_SERVER_IMAGE_CACHE_H_
#define WARPLINE_SERVER_WORKER_HOST_SERVER_IMAGE_CACHE_H_

#include <cstdint>

#include "common/crypto/content_hash.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "server/worker/executors/cached_images.h"
#include "server/worker/executors/decoder_thread.h"

namespace warpline::worker {

// Thread-safe, except for Find().
class ServerImageCache final : public ImageCache {
 public:
  // Serves the session of this number in the server. `socket` is borrowed.
  ServerImageCache(int socket, uint64_t session) : socket_(socket), session_(session) {}

  UniqueFd Find(const ContentHash& hash, uint64_t bytes) RUNS_ON(decoder_thread) override;
  void Keep(int image, uint64_t bytes) override;

  // Passes on the answer that the socket's reader received.
  void Deliver(UniqueFd image);
  // The session is over: nothing is found any more, and who waits for an answer has none.
  void Close();

 private:
  const int socket_;
  const uint64_t session_;
  Mutex mu_;
  CondVar delivered_;
  // True while a question is not answered. It stays true when the wait was given up: a second
  // question is not allowed.
  bool waiting_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  UniqueFd answer_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_SERVER_IMAGE_CACHE_H_
