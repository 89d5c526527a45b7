#include "server/worker/host/server_module_record.h"

#include "common/packets/packet_socket.h"
#include "proto/worker.pb.h"

namespace warpline::worker {

void ServerModuleRecord::OnLoaded(const ContentHash& hash, uint64_t bytes) {
  {
    MutexLock lock(&mu_);
    // The server knows those that it was told of before, too.
    if (said_.size() >= kMostRemembered) said_.clear();
    if (!said_.insert(hash).second) return;
  }
  warpline_internal::FromWorker message;
  message.set_session(session_);
  message.mutable_module_loaded()->set_sha256(hash.data(), hash.size());
  message.mutable_module_loaded()->set_bytes(bytes);
  // When the server is gone, the process ends anyway.
  SendPacket(socket_, message, {}).IgnoreError();
}

}  // namespace warpline::worker
