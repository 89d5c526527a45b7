#include "server/worker/host/server_image_cache.h"

#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/packets/packet_socket.h"
#include "proto/worker.pb.h"

namespace warpline::worker {
namespace {

// Reading and hashing take some milliseconds; after this time, sending the image is as good.
constexpr absl::Duration kMostWait = absl::Seconds(5);

}  // namespace

UniqueFd ServerImageCache::Find(const ContentHash& hash, uint64_t bytes) {
  warpline_internal::FromWorker question;
  question.set_session(session_);
  question.mutable_find_module()->set_sha256(hash.data(), hash.size());
  question.mutable_find_module()->set_bytes(bytes);
  MutexLock lock(&mu_);
  if (waiting_ || closed_) return UniqueFd();
  waiting_ = true;
  answer_ = UniqueFd();  // Drops an answer that came too late.
  if (!SendPacket(socket_, question, {}).ok()) return UniqueFd();
  const absl::Time deadline = absl::Now() + kMostWait;
  while (waiting_ && !closed_ && absl::Now() < deadline)
    delivered_.WaitWithTimeout(&mu_, kMostWait);
  return waiting_ ? UniqueFd() : std::move(answer_);
}

void ServerImageCache::Keep(int image, uint64_t bytes) {
  warpline_internal::FromWorker offer;
  offer.set_session(session_);
  offer.mutable_keep_module()->set_bytes(bytes);
  // When the server is gone, the process ends anyway.
  SendPacket(socket_, offer, {image}).IgnoreError();
}

void ServerImageCache::Close() {
  MutexLock lock(&mu_);
  closed_ = true;
  delivered_.NotifyAll();
}

void ServerImageCache::Deliver(UniqueFd image) {
  MutexLock lock(&mu_);
  waiting_ = false;
  answer_ = std::move(image);
  delivered_.NotifyAll();
}

}  // namespace warpline::worker
