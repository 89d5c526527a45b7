#include "server/worker/host/socket_charger.h"

#include "common/packets/packet_socket.h"

namespace warpline::worker {

CudaResult SocketCharger::Charge(uint32_t device, uint64_t bytes) {
  MutexLock asking(&asking_mu_);
  warpline_internal::FromWorker message;
  message.set_session(session_);
  message.mutable_charge()->set_bytes(bytes);
  message.mutable_charge()->set_device(device);
  MutexLock lock(&mu_);
  if (closed_) return CudaResult::kOutOfMemory;
  message.mutable_charge()->set_id(++last_asked_);
  if (!SendPacket(fd_, message, {}).ok()) return CudaResult::kOutOfMemory;
  // The process ends with the socket, so the wait needs no timeout.
  while (last_answered_ != last_asked_ && !closed_) answered_.Wait(&mu_);
  return closed_ ? CudaResult::kOutOfMemory : static_cast<CudaResult>(error_);
}

void SocketCharger::Uncharge(uint32_t device, uint64_t bytes) {
  {
    MutexLock lock(&mu_);
    if (closed_) return;
  }
  warpline_internal::FromWorker message;
  message.set_session(session_);
  message.mutable_uncharge()->set_bytes(bytes);
  message.mutable_uncharge()->set_device(device);
  // The sending fails only when the server is gone.
  (void)SendPacket(fd_, message, {});
}

void SocketCharger::Close() {
  MutexLock lock(&mu_);
  closed_ = true;
  answered_.NotifyAll();
}

void SocketCharger::OnCharged(const warpline_internal::MemoryCharged& charged) {
  MutexLock lock(&mu_);
  last_answered_ = charged.id();
  error_ = charged.error();
  answered_.NotifyAll();
}

}  // namespace warpline::worker
