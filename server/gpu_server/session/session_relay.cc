#include "server/gpu_server/session/session_relay.h"

#include <algorithm>
#include <utility>

#include "common/crypto/secret.h"
#include "common/cuda/cuda_result.h"
#include "common/steady_time.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "server/gpu_server/session/connection/message_frame.h"

namespace warpline::server {
namespace {

// That a relay may reach. One that behaves has a slot's each.
constexpr size_t kMostSegments = 16;
// UcxEnd wants so many, and they are enough for a key of TLS.
constexpr size_t kSecretBytes = 16;
// Each relay is a process that is started, so after one the client waits for the next; the time
// doubles.
constexpr absl::Duration kFirstInterval = absl::Seconds(1);
constexpr absl::Duration kLongestInterval = absl::Minutes(1);

}  // namespace

SessionRelay::SessionRelay(EventLoop* control, EventLoop* spawner, const RelayOptions* options,
                           SessionPort* port, const SessionLines* lines, MemorySource memory)
    : control_(control),
      spawner_(spawner),
      options_(options),
      port_(port),
      lines_(lines),
      memory_(std::move(memory)),
      interval_(kFirstInterval) {}

bool SessionRelay::Offered() const {
  if (options_ == nullptr) return false;
  const std::string ip = IpOfPeer(lines_->peer());
  return !ip.empty() && (options_->tls || options_->ucx_networks.Contains(ip));
}

bool SessionRelay::OverUcx() const {
  return options_->ucx_networks.Contains(IpOfPeer(lines_->peer()));
}

void SessionRelay::OnAsk() {
  if (!Offered()) return Refuse("no relays are offered here");
  if (timer_ != 0) return;  // It is on its way.
  End();
  const absl::Duration wait = next_start_ - SteadyNow();
  if (wait <= absl::ZeroDuration()) return Begin();
  timer_ = control_->RunAfter(wait, [this] {
    control_loop.AssertOnLoop();
    timer_ = 0;
    Begin();
  });
}

void SessionRelay::Begin() {
  next_start_ = SteadyNow() + interval_;
  interval_ = std::min(2 * interval_, kLongestInterval);
  secret_ = RandomBytes(kSecretBytes);
  answered_ = false;
  RelayEvents* const events = this;
  relay_ = std::make_shared<RelayProcess>(control_, spawner_, events);
  relay_->Start(*options_, IpOfPeer(lines_->peer()), secret_, OverUcx());
}

void SessionRelay::OnRelayReady(const std::string& address, const std::string& bulk_endpoint) {
  answered_ = true;
  warpline_internal::Relay relay;
  relay.set_address(address);
  relay.set_secret(secret_);
  relay.set_bulk_endpoint(bulk_endpoint);
  if (OverUcx()) relay.set_ucx_transports(options_->ucx_transports.ToString());
  port_->Push(FrameOf(kRelay, relay));
}

void SessionRelay::OnRelayMemory(const warpline_internal::RelayMemory& memory) {
  if (reaches_.size() >= kMostSegments && !reaches_.contains(memory.va())) {
    warpline_internal::HostMemoryAnswer refusal;
    refusal.set_error(static_cast<int>(CudaResult::kOutOfMemory));
    return relay_->AnswerMemory(memory.slot(), refusal, -1);
  }
  warpline_internal::HostMemoryRequest request;
  request.set_va(memory.va());
  request.set_bytes(memory.bytes());
  reaches_.insert(memory.va());
  memory_(request, [weak = std::weak_ptr<RelayProcess>(relay_), slot = memory.slot()](
                       const warpline_internal::HostMemoryAnswer& answer, int fd) {
    control_loop.AssertOnLoop();
    if (const auto relay = weak.lock()) relay->AnswerMemory(slot, answer, fd);
  });
}

void SessionRelay::OnRelayOver(const std::string& why) {
  relay_ = nullptr;
  reaches_.clear();
  connected_ = false;
  if (!why.empty()) {
    if (const LogPermit permit = lines_->Ask(kRelayLine)) {
      // A client that cannot reach its port is no fault of the server's.
      if (answered_) {
        permit.Info("relay lost ", lines_->Keys(), " reason=", why);
      } else {
        permit.Warning("relay lost ", lines_->Keys(), " reason=", why);
      }
    }
  }
  if (!answered_) Refuse("the server could not start a relay");
}

void SessionRelay::Refuse(const std::string& why) {
  answered_ = true;
  warpline_internal::Relay relay;
  relay.set_refusal(why);
  port_->Push(FrameOf(kRelay, relay));
}

void SessionRelay::End() {
  connected_ = false;
  reaches_.clear();
  if (timer_ != 0) control_->Remove(std::exchange(timer_, 0));
  if (relay_ != nullptr) std::exchange(relay_, nullptr)->End();
}

}  // namespace warpline::server
