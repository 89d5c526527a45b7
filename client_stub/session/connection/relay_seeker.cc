#include "client_stub/session/connection/relay_seeker.h"

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client_stub/session/status/session_log.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "transport/tcp/connect.h"
#include "transport/tls/tls_address.h"

namespace warpline::stub {
namespace {

constexpr size_t kMaxText = 256;
// For a relay's port to answer.
constexpr absl::Duration kPatience = absl::Seconds(3);

}  // namespace

std::string PlacesOfRelay(absl::string_view endpoint, absl::string_view place) {
  const size_t end = endpoint.rfind(':'), port = place.rfind(':');
  const absl::string_view host = endpoint.substr(0, end);
  const bool is_host = end != absl::string_view::npos && port != absl::string_view::npos &&
                       !host.empty() && !absl::StrContains(endpoint, '/') && host != "unix" &&
                       host != place.substr(0, port) && !absl::StrContains(host, ',');
  if (!is_host) return std::string(place);
  return absl::StrCat(host, place.substr(port), ",", place);
}

void RelaySeeker::Start(const std::string& endpoint) {
  endpoint_ = endpoint;
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
      permit.Info("the session has no connections of its own: ",
                  relay.refusal().substr(0, kMaxText));
    }
    return true;
  }
  bulk_endpoint_ = relay.bulk_endpoint();
  secret_ = relay.secret();
  DialTarget target = {.endpoint = relay.address(), .secret = relay.secret(), .once = true};
  if (const auto place = PlacesOf(relay.address()); place.has_value()) {
    const std::string places = PlacesOfRelay(endpoint_, *place);
    target.endpoint = bulk_endpoint_ = TlsAddress(places);
    // Its port may be closed to this host.
    target.reachable = [places] { return ConnectTcp(places, absl::Now() + kPatience).ok(); };
  }
  connection_->MoveTo(target);
  return true;
}

// One that could not be reached is not asked for again.
void RelaySeeker::OnResumed(bool moved, bool by_relay) {
  if (!started_.load()) return;
  on_bulk_(by_relay ? bulk_endpoint_ : "", by_relay ? secret_ : "");
  if (!moved) Ask();
}

}  // namespace warpline::stub
