// The part of SessionHost that moves a lease's sessions to another server, and takes over those
// that another server hands over.
//
// The scheduler decides: a lease is the other server's once that one has committed the move. Until
// then the sessions are at rest here. A server that does not know whether that has happened asks
// the scheduler, which then either ends the move or says that it was committed. So a session is
// never on two servers.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/serving/listen_address.h"
#include "common/steady_time.h"
#include "common/text.h"
#include "server/gpu_server/moves/received_sessions.h"
#include "server/gpu_server/session/session_host.h"

namespace warpline::server {
namespace {

using warpline_internal::MoveOrder;

// The time that a session has to come to rest, each time that it is tried.
constexpr absl::Duration kRest = absl::Seconds(10);
// How long it is tried again with a session that could not be moved just then.
constexpr absl::Duration kPatience = absl::Seconds(30);
// Between calls of a scheduler that does not answer.
constexpr absl::Duration kRetry = absl::Milliseconds(200);
// Moves to this server that wait for one another.
constexpr int kMostArriving = 16;
// Leases that this server knows to be elsewhere.
constexpr size_t kMostMoves = 65536;
// Longer than a ticket is good (scheduler::kMoveDeadline).
constexpr absl::Duration kTicketMemory = absl::Minutes(20);

bool GetsNoAnswer(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

// A lease's move to another server.
struct SessionHost::Moving {
  MoveOrder order;
  std::vector<SessionCut> cuts;  // Those of its sessions that are at rest.
  absl::Status failed;           // Why the lease stays.
};

void SessionHost::StartMoves(MoveServices services) {
  MutexLock lock(&mu_);
  moves_with_ = std::make_shared<const MoveServices>(std::move(services));
}

void SessionHost::StopMoves() {
  {
    MutexLock lock(&mu_);
    if (moves_with_ == nullptr) return;
    moves_with_ = nullptr;
    moves_changed_.NotifyAll();
  }
  move_stop_.Stop();
  moves_out_.Flush();
  moves_in_.Flush();
}

std::shared_ptr<const MoveServices> SessionHost::MovesWith() {
  MutexLock lock(&mu_);
  return moves_with_;
}

bool SessionHost::PauseMoves(absl::Duration pause) {
  const absl::Time end = SteadyNow() + pause;
  MutexLock lock(&mu_);
  while (moves_with_ != nullptr && SteadyNow() < end) {
    moves_changed_.WaitWithTimeout(&mu_, end - SteadyNow());
  }
  return moves_with_ != nullptr;
}

// --- From here.

void SessionHost::MoveLease(const MoveOrder& order) {
  control_.Post([this, order] {
    control_loop.AssertOnLoop();
    BeginMove(order);
  });
}

void SessionHost::BeginMove(const MoveOrder& order) {
  {
    MutexLock lock(&mu_);
    if (moves_with_ == nullptr) return;
    if (moves_.size() >= kMostMoves && !moves_.contains(order.lease())) return;
    Move& move = moves_[order.lease()];
    // The scheduler repeats an order until it knows what became of it.
    if (move.under_way || move.ticket == order.ticket()) return;
    move = {.ticket = order.ticket(), .under_way = true};
  }
  const auto moving = std::make_shared<Moving>();
  moving->order = order;
  std::vector<uint64_t> ids;
  for (const auto& [id, session] : sessions_) {
    if (session->entitlement().lease == order.lease()) ids.push_back(id);
  }
  LogInfo("moves lease=", order.lease(), " to_server=", order.server(),
          " endpoint=", Quoted(order.endpoint()), " sessions=", ids.size());
  CutGroup(ids,
           {.heir = Session::Heir::kOtherServer,
            .deadline = kRest,
            .give_up = SteadyNow() + kPatience,
            .failure = "cannot be moved"},
           [this, moving](Resting resting) {
             control_loop.AssertOnLoop();
             moving->cuts = std::move(resting.cuts);
             moving->failed = resting.failed;
             SendAway(moving);
           });
}

void SessionHost::SendAway(const std::shared_ptr<Moving>& moving) {
  moves_out_.Post([this, moving] {
    const auto services = MovesWith();
    absl::StatusOr<std::string> token = absl::CancelledError("the server is shutting down");
    bool certain = true;
    if (!moving->failed.ok()) {
      token = moving->failed;
    } else if (services != nullptr) {
      token = SendSessions(services->dial, moving->order.endpoint(), moving->order.ticket(),
                           &moving->cuts, services->space, &move_stop_, &certain);
    }
    if (!token.ok()) {
      const auto moved = EndMove(*moving, token.status());
      if (moved.ok() && *moved) token = "";
      // Where nobody answers, sessions that may be elsewhere do not go on here.
      if (!moved.ok() && !certain) token = "";
    }
    control_.Post([this, moving, token] {
      control_loop.AssertOnLoop();
      FinishMove(moving, token);
    });
  });
}

absl::StatusOr<bool> SessionHost::EndMove(const Moving& moving, const absl::Status& why) {
  while (true) {
    const auto services = MovesWith();
    if (services == nullptr) return absl::CancelledError("the server is shutting down");
    const auto ended = services->end(moving.order.lease(), std::string(why.message()));
    if (ended.ok()) return ended->moved();
    if (!GetsNoAnswer(ended.status())) return ended.status();
    LogWarning("the scheduler does not say what became of the move of lease=", moving.order.lease(),
               ": ", std::string(ended.status().message()));
    PauseMoves(kRetry);
  }
}

void SessionHost::FinishMove(const std::shared_ptr<Moving>& moving,
                             const absl::StatusOr<std::string>& token) {
  const MoveOrder& order = moving->order;
  const uint64_t bytes = HeldBytes(moving->cuts);
  // Their memory goes with the sessions.
  std::vector<SessionCut> cuts = std::exchange(moving->cuts, {});
  {
    MutexLock lock(&mu_);
    Move& move = moves_[order.lease()];
    move.under_way = false;
    moves_changed_.NotifyAll();
    if (token.ok()) {
      move.endpoint = order.endpoint();
      move.token = *token;
      const absl::Time until = SteadyNow() + 2 * options_.session.resume_timeout;
      for (const SessionCut& cut : cuts) gone_[cut.manifest.secret()] = {order.endpoint(), until};
    }
  }
  std::vector<std::string> secrets;
  std::vector<uint64_t> ids;
  for (SessionCut& cut : cuts) {
    secrets.push_back(std::move(*cut.manifest.mutable_secret()));
    ids.push_back(cut.manifest.session());
  }
  cuts.clear();
  EndCutSessions(ids, token.status());
  if (!token.ok()) {
    LogWarning("lease=", order.lease(), " stays: ", token.status().ToString());
    return;
  }
  LogInfo("moved lease=", order.lease(), " to_server=", order.server(), " sessions=", ids.size(),
          " bytes=", bytes);
  // Clients that come later than that have given up.
  control_.RunAfter(2 * options_.session.resume_timeout, [this, secrets] {
    MutexLock lock(&mu_);
    for (const std::string& secret : secrets) {
      // It may have come back, and gone again.
      const auto found = gone_.find(secret);
      if (found != gone_.end() && found->second.until <= SteadyNow()) gone_.erase(found);
    }
    moves_changed_.NotifyAll();
  });
}

std::optional<warpline_internal::Redirect> SessionHost::WhereTo(const std::string& token,
                                                                const CertificateHolder& holder,
                                                                absl::Status* refusal) {
  {
    MutexLock lock(&mu_);
    if (moves_.empty()) return std::nullopt;
  }
  bool here = false;
  const auto lease = options_.leases->LeaseOf(token, holder, &here);
  if (!lease.ok()) return std::nullopt;
  MutexLock lock(&mu_);
  const auto found = moves_.find(*lease);
  if (found == moves_.end()) return std::nullopt;
  if (found->second.under_way) {
    *refusal = absl::UnavailableError("the session's lease is moving to another server");
  }
  if (found->second.endpoint.empty()) return std::nullopt;
  warpline_internal::Redirect redirect;
  redirect.set_endpoint(found->second.endpoint);
  redirect.set_token(here ? found->second.token : token);
  return redirect;
}

void SessionHost::AwaitMoved(absl::Time deadline) {
  const auto under_way = [](const auto& move) { return move.second.under_way; };
  const auto untold = [](const auto& gone) { return !gone.second.told; };
  MutexLock lock(&mu_);
  while (SteadyNow() < deadline &&
         (absl::c_any_of(moves_, under_way) || absl::c_any_of(gone_, untold))) {
    moves_changed_.WaitWithTimeout(&mu_, deadline - SteadyNow());
  }
}

bool SessionHost::HasLeft(const std::string& secret, std::string* endpoint) {
  MutexLock lock(&mu_);
  const auto found = gone_.find(secret);
  if (found == gone_.end()) return false;
  *endpoint = found->second.endpoint;
  found->second.told = true;
  moves_changed_.NotifyAll();
  return true;
}

// --- To here.

absl::Status SessionHost::TakeMove(const std::string& peer,
                                   const warpline_internal::MoveHello& hello,
                                   std::shared_ptr<MovePipe> pipe) {
  const auto ticket = options_.leases->OpenTicket(hello.ticket());
  if (!ticket.ok()) {
    RecordRefusal(peer, 0, ticket.status());
    return ticket.status();
  }
  {
    MutexLock lock(&mu_);
    if (draining_ || held_ || moves_with_ == nullptr) {
      return absl::UnavailableError("the server is shutting down");
    }
    // Sessions that rest here may be older than those that come.
    const auto leaving = moves_.find(ticket->lease);
    if (leaving != moves_.end() && leaving->second.under_way) {
      return absl::FailedPreconditionError(
          "this server does not know yet what became of the lease's move away from it");
    }
    if (arriving_ >= kMostArriving) {
      return absl::ResourceExhaustedError("the server takes over as many leases as it may");
    }
    if (!UseTicket(*ticket)) return absl::FailedPreconditionError("the ticket has been used");
    ++arriving_;
  }
  moves_in_.Post([this, ticket = *ticket, hello, pipe = std::move(pipe)] {
    ReceiveLease(ticket, hello, pipe.get());
    MutexLock lock(&mu_);
    --arriving_;
  });
  return absl::OkStatus();
}

// A server that sends sessions does it once. A ticket that is shown again comes with other
// sessions.
bool SessionHost::UseTicket(const LeaseToken& ticket) {
  const absl::Time now = SteadyNow();
  absl::erase_if(used_tickets_, [now](const auto& used) { return used.second <= now; });
  return used_tickets_.emplace(ticket.move, now + kTicketMemory).second;
}

void SessionHost::ReceiveLease(const LeaseToken& ticket, const warpline_internal::MoveHello& hello,
                               MovePipe* pipe) {
  const auto services = MovesWith();
  absl::Status status = absl::UnavailableError("the server is shutting down");
  std::vector<uint64_t> ids;
  std::vector<uint64_t> former;  // Their numbers at the other server.
  std::vector<std::string> secrets;
  uint64_t bytes = 0;
  std::string token;
  if (services != nullptr) {
    auto cuts = ReceiveSessions(pipe, hello.sessions(),
                                {ticket.max_sessions, ticket.slice.memory_bytes}, services->space);
    status = cuts.status();
    if (status.ok()) {
      bytes = HeldBytes(*cuts);
      former = NumbersOf(*cuts);
      for (const SessionCut& cut : *cuts) secrets.push_back(cut.manifest.secret());
      OnControl([&] {
        control_loop.AssertOnLoop();
        status = AdoptMoved(ticket, *std::move(cuts), &ids);
      });
    }
    if (status.ok()) status = CommitMove(hello.ticket(), former, ids, bytes, &token);
  }
  if (status.ok()) {
    MutexLock lock(&mu_);
    moves_.erase(ticket.lease);
    // They may have been here before.
    for (const std::string& secret : secrets) gone_.erase(secret);
  }
  OnControl([&] {
    control_loop.AssertOnLoop();
    for (const uint64_t id : ids) {
      const auto found = sessions_.find(id);
      if (found == sessions_.end()) continue;
      const auto session = found->second;
      if (status.ok()) {
        session->SetToken(token);
        session->LetIn();
      } else {
        session->EndWithFault(CudaResult::kSystemNotReady, "its lease did not move here");
      }
    }
  });
  if (status.ok()) {
    options_.leases->Arrive(ticket.lease);
    LogInfo("took over lease=", ticket.lease, " from_server=", ticket.moved_from,
            " sessions=", ids.size(), " bytes=", bytes);
    return pipe->Finish(std::move(token));
  }
  options_.leases->MarkEnded(ticket.lease, {"it is another server's", EndCause::kNamesNobody});
  LogWarning("lease=", ticket.lease, " of server=", ticket.moved_from,
             " is not taken over: ", status.ToString());
  pipe->Close(status);
}

absl::Status SessionHost::AdoptMoved(const LeaseToken& ticket, std::vector<SessionCut> cuts,
                                     std::vector<uint64_t>* ids) {
  for (SessionCut& cut : cuts) {
    const std::string peer = cut.manifest.peer();
    auto membership = options_.leases->JoinMoved(ticket, HolderOf(peer), PeerUnit(peer));
    if (!membership.ok()) return membership.status();
    cut.origin = Origin::kOtherServer;
    cut.manifest.clear_token();
    uint64_t id = 0;
    {
      MutexLock lock(&mu_);
      if (numbers_.contains(cut.manifest.secret())) {
        return absl::AlreadyExistsError("there is such a session");
      }
      id = ++last_id_;
    }
    cut.manifest.set_session(id);
    // Until the move is committed the other server may still go on with it.
    const absl::Status adopted =
        AdoptAs(id, *std::move(membership), std::move(cut), /*barred=*/true);
    if (!adopted.ok()) return adopted;
    ids->push_back(id);
  }
  return absl::OkStatus();
}

absl::Status SessionHost::CommitMove(const std::string& ticket, const std::vector<uint64_t>& former,
                                     const std::vector<uint64_t>& ids, uint64_t bytes,
                                     std::string* token) {
  warpline_internal::MoveCommit request;
  request.set_ticket(ticket);
  request.set_bytes(bytes);
  for (size_t i = 0; i < ids.size(); ++i) {
    auto* const session = request.add_sessions();
    session->set_from(former[i]);
    session->set_to(ids[i]);
  }
  while (true) {
    const auto services = MovesWith();
    if (services == nullptr) return absl::CancelledError("the server is shutting down");
    auto committed = services->commit(request);
    if (committed.ok()) {
      *token = *std::move(committed);
      return absl::OkStatus();
    }
    if (!GetsNoAnswer(committed.status())) return committed.status();
    PauseMoves(kRetry);
  }
}

}  // namespace warpline::server
