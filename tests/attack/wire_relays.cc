// Attacks on relays: processes that a session can have started, and connections of others to
// them.
#include <poll.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/unique_fd.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "server/relay/bulk/bulk_server.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"
#include "tests/hostile/raw_client.h"
#include "transport/bulk/bulk_socket.h"
#include "transport/tcp/connect.h"
#include "transport/tls/tls_address.h"
#include "transport/tls/tls_end.h"
#include "transport/ucx/ucx_address.h"
#include "transport/ucx/ucx_end.h"

namespace warpline::attack {
namespace {

using hostile::RawClient;

// A client that has a session with relays, and speaks for itself from then on.
absl::StatusOr<std::unique_ptr<RawClient>> OpenOwner(const WireTarget& target) {
  auto client = RawClient::Connect(target.endpoint, target.tls);
  if (!client.ok()) return client.status();
  warpline_internal::Hello hello = HonestHello(/*resumable=*/true);
  hello.set_features(hello.features() | kFeatureRelays);
  (*client)->Send(kHello, hello.SerializeAsString());
  const auto frame = (*client)->Expect(kWelcome, kPatience);
  if (!frame.ok()) return frame.status();
  warpline_internal::Welcome welcome;
  if (!welcome.ParseFromString(*frame)) return absl::InternalError("malformed welcome");
  if ((welcome.features() & kFeatureRelays) == 0) {
    return absl::UnavailableError("the server offers no relays");
  }
  return *std::move(client);
}

absl::StatusOr<warpline_internal::Relay> TakeRelay(RawClient* client, absl::Duration patience) {
  const auto frame = client->Expect(kRelay, patience);
  if (!frame.ok()) return frame.status();
  warpline_internal::Relay relay;
  if (!relay.ParseFromString(*frame)) return absl::InternalError("malformed relay");
  return relay;
}

// Each relay is a process.
WireResult RelaysWithoutEnd(const WireTarget& target) {
  const auto client = OpenOwner(target);
  if (!client.ok()) return Unprepared(client.status());
  constexpr int kMost = 4;  // At once, after one second, two and four more.
  const absl::Time until = absl::Now() + absl::Seconds(4);
  int relays = 0;
  while (absl::Now() < until && relays <= kMost) {
    (*client)->Send(kRelayAsk, "");
    const auto relay = TakeRelay(client->get(), until - absl::Now());
    if (relay.ok() && !relay->address().empty()) ++relays;
    if (!relay.ok() && !absl::IsDeadlineExceeded(relay.status())) return Unprepared(relay.status());
  }
  const std::string started = absl::StrCat(relays, " relays in 4 s");
  return relays <= kMost ? JudgeNeighbour(target, started) : Succeeded(started);
}

// Opens a session as OpenOwner() does, and asks for a relay.
absl::StatusOr<std::unique_ptr<RawClient>> OpenWithRelay(const WireTarget& target,
                                                         warpline_internal::Relay* relay) {
  auto client = OpenOwner(target);
  if (!client.ok()) return client.status();
  (*client)->Send(kRelayAsk, "");
  auto taken = TakeRelay(client->get(), kPatience);
  if (!taken.ok()) return taken.status();
  *relay = *std::move(taken);
  if (relay->secret().size() != kUcxSecretBytes || relay->bulk_endpoint().empty()) {
    return absl::UnavailableError("no relay: " + relay->refusal());
  }
  return client;
}

// Secrets that are not the relay's.
std::vector<std::string> WrongSecrets(const warpline_internal::Relay& relay) {
  std::vector<std::string> wrong(2, relay.secret());
  wrong[0].front() = static_cast<char>(wrong[0].front() ^ 1);
  wrong[1].back() = static_cast<char>(wrong[1].back() ^ 1);
  wrong.emplace_back(relay.secret().size(), '\0');
  return wrong;
}

// An attacker that knows where a relay is, and not its secret, connects to it.
WireResult RelayOfOthers(const WireTarget& target) {
  warpline_internal::Relay relay;
  const auto client = OpenWithRelay(target, &relay);
  if (!client.ok()) return Unprepared(client.status());
  const auto address = UcxAddress::Parse(relay.address());
  if (!address.ok()) return Unprepared(address.status());
  for (const std::string& wrong : WrongSecrets(relay)) {
    const auto end = UcxEnd::Connect(*address, wrong, absl::Now() + absl::Seconds(1));
    if (end.ok()) return Succeeded("a stranger has the session's relay");
  }
  // Its owner comes all the same.
  const auto end = UcxEnd::Connect(*address, relay.secret(), absl::Now() + kPatience);
  if (!end.ok()) return Succeeded(absl::StrCat("its owner: ", end.status().ToString()));
  return Stopped("three secrets were not heard");
}

// The attacker does so at a relay with TLS.
WireResult TlsRelayOfOthers(const WireTarget& target) {
  warpline_internal::Relay relay;
  const auto client = OpenWithRelay(target, &relay);
  if (!client.ok()) return Unprepared(client.status());
  const auto places = PlacesOf(relay.address());
  if (!places.has_value()) return Unprepared("a relay without TLS");
  for (const std::string& wrong : WrongSecrets(relay)) {
    const auto end = TlsEnd::Connect(*places, wrong, absl::Now() + kPatience);
    if (end.ok()) return Succeeded("a stranger has the session's relay");
  }
  const auto end = TlsEnd::Connect(*places, relay.secret(), absl::Now() + kPatience);
  if (!end.ok()) return Succeeded(absl::StrCat("its owner: ", end.status().ToString()));
  return Stopped("three secrets were not heard");
}

absl::StatusOr<std::unique_ptr<BulkSocket>> ConnectBulk(const warpline_internal::Relay& relay,
                                                        const std::string& secret) {
  return BulkSocket::Connect(relay.bulk_endpoint(), secret, 0, absl::Now() + kPatience,
                             BulkSocket::Unreachable::kRefuse);
}

// Returns where the relay listens for bulk connections.
std::string PlaceOf(const warpline_internal::Relay& relay) {
  return std::string(PlacesOf(relay.bulk_endpoint()).value_or(relay.bulk_endpoint()));
}

// Returns whether the relay hands out the session's memory to a peer that shows this secret.
absl::StatusOr<bool> HasBulkMemory(const warpline_internal::Relay& relay,
                                   const std::string& secret) {
  const auto socket = ConnectBulk(relay, secret);
  if (absl::IsUnauthenticated(socket.status())) return false;
  if (!socket.ok()) return socket.status();
  warpline_internal::HostMemoryRequest request;
  request.set_va(kHostArenaBase);
  request.set_bytes(kHostPageBytes);
  BulkFrameHeader answer;
  return (*socket)->Send(kBulkMemory, request.SerializeAsString(), {}).ok() &&
         (*socket)->AwaitReadable(absl::Now() + kPatience) &&
         (*socket)->Receive(&answer, sizeof(answer)).ok();
}

// An attacker that knows where a relay takes bulk connections, and not its secret, asks for memory.
WireResult BulkOfOthers(const WireTarget& target) {
  warpline_internal::Relay relay;
  const auto client = OpenWithRelay(target, &relay);
  if (!client.ok()) return Unprepared(client.status());
  for (const std::string& wrong : WrongSecrets(relay)) {
    const auto heard = HasBulkMemory(relay, wrong);
    if (!heard.ok()) return Unprepared(heard.status());
    if (*heard) return Succeeded("a stranger has memory of the session");
  }
  const auto owner = HasBulkMemory(relay, relay.secret());
  if (!owner.ok() || !*owner) return Succeeded("its owner is not heard");
  return Stopped("three secrets were not heard");
}

// Many clients come there and say nothing. The relay takes connections in their order and makes
// room for each at once, so that those before its owner's have given way when that one is heard.
WireResult BulkStrangers(const WireTarget& target) {
  constexpr size_t kStrangers = 200;
  warpline_internal::Relay relay;
  const auto client = OpenWithRelay(target, &relay);
  if (!client.ok()) return Unprepared(client.status());
  std::vector<UniqueFd> strangers;
  for (size_t i = 0; i < kStrangers; ++i) {
    auto stranger = ConnectTcp(PlaceOf(relay), absl::Now() + kPatience);
    if (!stranger.ok()) return Unprepared(stranger.status());
    strangers.push_back(*std::move(stranger));
  }
  // A stranger that does not show the secret in time has to go, which may be the owner itself where
  // this process is not let run.
  const bool heard = AwaitThat([&] {
    const auto owner = HasBulkMemory(relay, relay.secret());
    return owner.ok() && *owner;
  });
  if (!heard) return Succeeded("its owner is kept out");
  // One that was sent away has something to receive: the end.
  const auto left = std::count_if(strangers.begin(), strangers.end(), [](const auto& stranger) {
    return PollSocket(stranger.get(), POLLIN, 0) == 0;
  });
  const std::string detail =
      absl::StrCat(left, " of ", kStrangers, " strangers are left, of at most ",
                   relay::BulkServer::kMostStrangers);
  return static_cast<size_t>(left) <= relay::BulkServer::kMostStrangers ? Stopped(detail)
                                                                        : Succeeded(detail);
}

// Asks whose answers nobody takes, as fast as they can be sent.
WireResult AsksWithoutTaking(const WireTarget& target) {
  auto opened = OpenOwner(target);
  if (!opened.ok()) return Unprepared(opened.status());
  const std::shared_ptr<RawClient> client = *std::move(opened);
  client->StopReading();
  const Footprint before = Measure(target);
  Flood(int64_t{4'000'000} * target.scale, [client](int64_t) { client->Send(kRelayAsk, ""); });
  return JudgeGrowth(
      target, before,
      {.resident_kib = 16 << 10, .descriptors = 32, .threads = 8, .log_bytes = 64 << 10});
}

constexpr WireAttack kAttacks[] = {
    {"relays_without_end", "-", "", &RelaysWithoutEnd},
    {"relay_of_others", "-", "", &RelayOfOthers},
    {"relay_bulk_of_others", "-", "", &BulkOfOthers},
    {"relay_bulk_strangers", "-", "", &BulkStrangers},
    {"relay_asks_without_taking", "-", "", &AsksWithoutTaking},
    {"tls_relay_of_others", "-", "", &TlsRelayOfOthers},
    {"tls_relay_bulk_of_others", "-", "", &BulkOfOthers},
    {"tls_relay_strangers", "-", "", &BulkStrangers},
};

}  // namespace

absl::Span<const WireAttack> RelayAttacks() { return kAttacks; }

}  // namespace warpline::attack
