#include "client_stub/session/connection/relay_seeker.h"

#include <cstddef>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client_stub/session/status/session_log.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "transport/tcp/socket_address.h"
#include "transport/tls/tls_address.h"
#include "transport/tls/tls_connect.h"
#include "transport/ucx/ucx_transports.h"

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

std::string FindRelay(const std::string& places, const std::string& secret,
                      const std::function<bool()>& given_up) {
  const absl::Time until = absl::Now() + kPatience;
  const std::vector<std::string> all = absl::StrSplit(places, ',');
  for (size_t i = 0; i < all.size() && !given_up(); ++i) {
    const absl::Time now = absl::Now();
    const absl::Time end = now + (until - now) / static_cast<double>(all.size() - i);
    if (ConnectTls(all[i], secret, end, given_up).ok()) return TlsAddress(all[i]);
  }
  return "";
}

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
      permit.Info("the session has no connections of its own: ",
                  relay.refusal().substr(0, kMaxText));
    }
    return true;
  }
  // The list becomes a setting of UCX in the application's process.
  const auto transports = UcxTransports::ParseTold(relay.ucx_transports());
  if (!transports.ok() || !transports->CheckBetweenHosts().ok()) return false;
  bulk_endpoint_ = relay.bulk_endpoint();
  secret_ = relay.secret();
  DialTarget target = {.endpoint = relay.address(),
                       .secret = relay.secret(),
                       .via = relay.ucx_transports(),
                       .once = true};
  if (const auto place = PlacesOf(relay.address()); place.has_value()) {
    // No names of the server's are looked up.
    if (!SocketAddress::Parse(*place).ok()) return false;
    target.find = [this, places = PlacesOfRelay(server_->Get(), *place),
                   secret = relay.secret()](const std::function<bool()>& given_up) {
      std::string found = FindRelay(places, secret, given_up);
      MutexLock lock(&mu_);
      found_ = found;
      return found;
    };
  }
  connection_->MoveTo(target);
  return true;
}

// One that could not be reached is not asked for again.
void RelaySeeker::OnResumed(bool moved, bool by_relay) {
  if (!started_.load()) return;
  std::string bulk = bulk_endpoint_;
  if (PlacesOf(bulk).has_value()) {
    MutexLock lock(&mu_);
    bulk = found_;
  }
  on_bulk_(by_relay ? bulk : "", by_relay ? secret_ : "");
  if (!moved) Ask();
}

}  // namespace warpline::stub
