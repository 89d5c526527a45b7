#include "client_stub/session/opening/session_impl.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "client_stub/session/bulk/channel_bulk_link.h"
#include "client_stub/session/bulk/socket_bulk_link.h"
#include "client_stub/session/connection/local_server.h"
#include "client_stub/session/handshake/arena_search.h"
#include "client_stub/session/handshake/handshake.h"
#include "client_stub/session/memory/host_memory_link.h"
#include "client_stub/session/opening/other_address.h"
#include "common/process_identity.h"
#include "proto/frames.h"
#include "proto/refusal.h"
#include "transport/channel_loop.h"

namespace warpline::stub {
namespace {

// A program that starts asks much in a row, which would wait for the move: some milliseconds.
constexpr absl::Duration kSettling = absl::Milliseconds(50);

}  // namespace

SessionImpl::SessionImpl(ArenaReservation arena)
    : arena_(std::move(arena)),
      loop_({arena_.base(), arena_.bytes()},
            {.commands = &commands_,
             .control = &control_,
             .memory = &memory_,
             .notices = &notices_,
             .relays = &relays_,
             .log = &log_,
             .server = &server_},
            &connection_, &answer_),
      connection_(&commands_.channel(), &loop_, &log_,
                  {.prepare = [this] { return memory_.host_memory().HandOver(); },
                   .gave_up =
                       [this](const absl::Status& status) {
                         channel_loop.AssertOnLoop();
                         loop_.OnGivenUp(status);
                       }}) {
  SetParts({.terms = &loop_.welcomed().terms,
            .commands = &commands_,
            .status = &commands_.errors(),
            .memory = &memory_,
            .bulk = &bulk_,
            .relay_bulk = &relay_bulk_,
            .notices = &notices_,
            .counters = &commands_.counters()});
}

absl::Status SessionImpl::Start(const SessionOptions& options, const Dialer& given) {
  server_.Set(options.endpoint);
  // The connections that are opened later go to where the session is by then.
  const Dialer dialer = [this, given, opened = options.endpoint](const DialTarget& target,
                                                                 ChannelHandler* handler,
                                                                 absl::Duration deadline) {
    if (target.endpoint != opened || !target.secret.empty())
      return given(target, handler, deadline);
    DialTarget now = target;
    now.endpoint = server_.Get();
    return given(now, handler, deadline);
  };
  commands_.errors().output().SetPrinter(options.printer);
  if (!commands_.ok()) return absl::ResourceExhaustedError("no memory for the session's commands");
  control_.Push({kHello, MakeHello(options, {arena_.base(), arena_.bytes()})});
  const auto direct = options.transfer && options.direct && options.resume > absl::ZeroDuration()
                          ? DirectAddress(options.endpoint)
                          : std::nullopt;
  const absl::Status connected = connection_.Connect(direct, DialTarget{options.endpoint}, dialer,
                                                     options.deadline, options.resume);
  if (!connected.ok()) return connected;
  // While the server finds a worker.
  commands_.queue().Warm();
  if (const absl::Status opened = answer_.Await(options.open_deadline); !opened.ok()) return opened;
  counters().open_round_trips.fetch_add(1, std::memory_order_relaxed);
  const Welcomed& welcomed = loop_.welcomed();
  if (options.guard != GuardMode::kOff && (welcomed.terms.features & kFeatureGuard) == 0) {
    return absl::FailedPreconditionError("the server does not guard kernels: it is too old");
  }
  if (options.tier != Tier::kIsolated && !welcomed.terms.HasAllMemory()) {
    return absl::FailedPreconditionError("the server has no tiers: it is too old");
  }
  commands_.SetTerms(welcomed.version, welcomed.window_bytes, welcomed.window_commands);
  if (!welcomed.host_memory_socket.empty() && welcomed.boot_id == BootId()) {
    memory_.host_memory().Open({LocalServer(options.endpoint), welcomed.host_memory_socket,
                                welcomed.session, welcomed.secret});
  }
  if ((welcomed.terms.features & kFeatureBoard) != 0) {
    commands_.shared_board().SetSource([this] { return memory_.host_memory().RequestBoard(); });
  }
  if ((welcomed.terms.features & kFeatureBulk) != 0) {
    bulk_.Start([&](uint32_t slot, uint64_t va) {
      return std::make_unique<ChannelBulkLink>(slot, va, DialTarget{options.endpoint}, dialer,
                                               BulkIdentity{welcomed.session, welcomed.secret});
    });
    bulk_.Offer(true);
    relay_bulk_.Start([this](uint32_t slot, uint64_t va) {
      return std::make_unique<SocketBulkLink>(slot, va, &relay_target_);
    });
  }
  std::optional<DialTarget> other;
  const bool there = direct.has_value() && absl::string_view(transport()) == "shm";
  if (options.transfer && !there) other = OtherAddress(welcomed, options.endpoint);
  if (other.has_value()) {
    connection_.MoveTo(*other, kSettling);
  } else if (!there && options.relays && (welcomed.terms.features & kFeatureRelays) != 0) {
    relays_.Start();
  }
  return absl::OkStatus();
}

void SessionImpl::OnRelay(RelayTarget::Address address) {
  const bool offered = !address.endpoint.empty();
  relay_target_.Set(std::move(address));
  relay_bulk_.Offer(offered);
}

void SessionImpl::Close(absl::Duration deadline) {
  const absl::Cleanup finish = [this] {
    memory_.host_memory().Lose();
    log_.Finish();
  };
  const absl::Time end = absl::Now() + deadline;
  connection_.BeginClosing();
  bulk_.Close();
  relay_bulk_.Close();
  const bool sound = commands_.errors().End();
  commands_.channel().Wake();
  const auto flushed = [this] { return commands_.queue().AllReceived(); };
  if (!connection_.AwaitFlushed(end, sound, flushed)) return;
  control_.Push({kClose, std::string()});
  commands_.channel().Close(absl::OkStatus());
  connection_.AwaitClosed(end);
}

namespace {

// Opens a session with the arena at `place`, which the process must have free. Tries again within
// `options.deadline` while the connection is lost before the server has answered; and also while
// there is no room, if a session of ours was refused before and may still be ending.
absl::StatusOr<std::unique_ptr<SessionImpl>> OpenWithArena(const ArenaCandidate& place,
                                                           ArenaReservation arena,
                                                           const SessionOptions& options,
                                                           const Dialer& dialer,
                                                           bool refused_before) {
  // The pause between attempts after a lost connection or a refusal by a full server; it doubles.
  constexpr absl::Duration kFirstPause = absl::Milliseconds(10);
  constexpr absl::Duration kLongestPause = absl::Milliseconds(500);
  absl::Duration pause = kFirstPause;
  const absl::Time end = absl::Now() + options.deadline;
  while (true) {
    SessionOptions attempt = options;
    attempt.deadline = absl::Ceil(end - absl::Now(), absl::Milliseconds(100));
    auto session = std::make_unique<SessionImpl>(std::move(arena));
    const absl::Status status = session->Start(attempt, dialer);
    if (status.ok()) return session;
    // A connection may break while the session opens, and then there is nothing to resume. A client
    // that got an answer, such as a redirect, must not ask again: a scheduler gave a lease with it.
    const bool room_is_coming =
        refused_before && RefusalOf(status).reason() == warpline_internal::Refusal::NO_ROOM;
    const bool again = session->LostWhileOpening() || room_is_coming;
    if (!again || absl::Now() + pause >= end) return status;
    session.reset();
    absl::SleepFor(pause);
    pause = std::min(2 * pause, kLongestPause);
    arena = ArenaReservation::At(place.base, place.bytes);
    if (!arena.held()) return ArenaUnavailable("another thread of this process took it");
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionImpl>> OpenSession(const SessionOptions& options,
                                                         const Dialer& dialer) {
  ArenaSearch search(options.tier == Tier::kGuarded ? SharedArenaCandidates() : ArenaCandidates());
  while (const auto place = search.Next()) {
    ArenaReservation arena = ArenaReservation::At(place->base, place->bytes);
    if (!arena.held()) continue;
    auto session = OpenWithArena(*place, std::move(arena), options, dialer, search.refusals() > 0);
    if (session.ok() || !search.OnRefused(session.status())) return session;
  }
  return search.Failure();
}

}  // namespace warpline::stub
