// Tells the server which images modules were made of, through the control socket
// (proto/worker.proto).
#ifndef WARPLINE_SERVER_WORKER_HOST_SERVER_MODULE_RECORD_H_
#define WARPLINE_SERVER_WORKER_HOST_SERVER_MODULE_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <set>

#include "absl/base/thread_annotations.h"
#include "common/crypto/content_hash.h"
#include "common/mutex.h"
#include "server/worker/executors/cached_images.h"

namespace warpline::worker {

// Thread-safe. Says each image once, as far as it remembers them: a program that loads the same few
// over and over costs the server nothing.
class ServerModuleRecord final : public ModuleRecord {
 public:
  static constexpr size_t kMostRemembered = 4096;

  // Speaks for the session of this number in the server. `socket` is borrowed.
  ServerModuleRecord(int socket, uint64_t session) : socket_(socket), session_(session) {}

  void OnLoaded(const ContentHash& hash, uint64_t bytes) override;

 private:
  const int socket_;
  const uint64_t session_;
  Mutex mu_;
  std::set<ContentHash> said_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_SERVER_MODULE_RECORD_H_
