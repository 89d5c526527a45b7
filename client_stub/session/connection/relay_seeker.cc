#include "client_stub/session/connection/relay_seeker.h"

#include <cstddef>

#include "client_stub/session/status/session_log.h"
#include "proto/frames.h"
#include "proto/session.pb.h"

namespace warpline::stub {
namespace {

constexpr size_t kMaxText = 256;

}  // namespace

void RelaySeeker::Start() {
  started_.store(true);
  Ask();
}

void RelaySeeker::Ask() { control_->Push({kRelayAsk, std::string()}); }

bool RelaySeeker::OnRelay(std::string_view payload) {
  warpline_internal::Relay relay;
  if (!started_.load() || !relay.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return false;
  }
  if (relay.address().empty()) {
    if (const LogPermit permit = log_->Ask(kNoRelayLine)) {
      permit.Info("the session does not go on over UCX: ", relay.refusal().substr(0, kMaxText));
    }
    return true;
  }
  bulk_endpoint_ = relay.bulk_endpoint();
  secret_ = relay.secret();
  connection_->MoveTo({.endpoint = relay.address(), .secret = relay.secret(), .once = true});
  return true;
}

// One that could not be reached is not asked for again.
void RelaySeeker::OnResumed(bool moved, bool by_relay) {
  if (!started_.load()) return;
  on_bulk_(by_relay ? bulk_endpoint_ : "", by_relay ? secret_ : "");
  if (!moved) Ask();
}

}  // namespace warpline::stub
