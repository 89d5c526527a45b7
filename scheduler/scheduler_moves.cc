// A lease's move to another server: the operator's request, and what the two servers ask.
//
// A move is in memory alone until it is committed. The change of the lease's record commits it, and
// says from then on, whatever becomes of this scheduler, whose the lease is and how its sessions
// are called there.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/crypto/secret.h"
#include "common/log/log.h"
#include "common/text.h"
#include "lease/device_match.h"
#include "lease/token.h"
#include "proto/devices.h"
#include "scheduler/scheduler.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::MoveCommit;
using warpline_internal::MoveCommitReply;
using warpline_internal::MoveEnd;
using warpline_internal::MoveEndReply;
using warpline_internal::MoveReply;
using warpline_internal::MoveRequest;

constexpr size_t kMaxText = 256;
// More sessions than the workers of a server's devices can be.
constexpr int kMostMovedSessions = 1024;
// For how long a server may report a lease that has moved away from it.
constexpr absl::Duration kFreshMove = absl::Seconds(30);

absl::Status CheckSessions(const MoveCommit& commit) {
  if (commit.sessions_size() > kMostMovedSessions) {
    return absl::InvalidArgumentError(
        absl::StrCat("a lease with more than ", kMostMovedSessions, " sessions cannot be moved"));
  }
  std::set<uint64_t> from;
  std::set<uint64_t> to;
  for (const auto& session : commit.sessions()) {
    if (!from.insert(session.from()).second || !to.insert(session.to()).second) {
      return absl::InvalidArgumentError("a session is named twice");
    }
  }
  return absl::OkStatus();
}

// The sessions' numbers at both servers.
std::vector<std::pair<uint64_t, uint64_t>> NumbersOf(const MoveCommit& commit) {
  std::vector<std::pair<uint64_t, uint64_t>> numbers;
  for (const auto& session : commit.sessions()) numbers.emplace_back(session.from(), session.to());
  return numbers;
}

MoveReply ReplyOf(const LeaseMove& move) {
  MoveReply reply;
  reply.set_state(move.state == LeaseMove::State::kMoving  ? MoveReply::MOVING
                  : move.state == LeaseMove::State::kMoved ? MoveReply::MOVED
                                                           : MoveReply::FAILED);
  reply.set_why(move.why);
  reply.set_server(move.to);
  reply.set_device(move.device);
  reply.set_sessions(move.sessions);
  reply.set_bytes(move.bytes);
  return reply;
}

}  // namespace

// --- The operator's request.

absl::StatusOr<MoveReply> Scheduler::Move(const MoveRequest& request) {
  if (auto status = CheckOperator(request.credential()); !status.ok()) return status;
  if (std::max({request.lease().size(), request.to().size(), request.device().size()}) > kMaxText) {
    return absl::InvalidArgumentError("a malformed request for a move");
  }
  if (request.to().empty() && !request.device().empty()) {
    return absl::InvalidArgumentError("a device of no server is named: name its server, too");
  }
  MutexLock lock(&mu_);
  const absl::Time now = Now();
  if (request.only_ask()) return AskForMove(request);
  const auto lease = store_->FindLease(request.lease());
  if (!lease.has_value()) return absl::NotFoundError("there is no such lease");
  const LeaseMove* const under_way = moves_.UnderWay(request.lease());
  if (under_way == nullptr) return BeginMove(*lease, request, now);
  const bool elsewhere = (!request.to().empty() && request.to() != under_way->to) ||
                         (!request.device().empty() &&
                          !FindByUuidName({under_way->device}, request.device()).has_value());
  if (elsewhere) {
    return absl::FailedPreconditionError(absl::StrCat("the lease is on its way to server ",
                                                      under_way->to, " device ", under_way->device,
                                                      " already"));
  }
  return ReplyOf(*under_way);
}

absl::StatusOr<MoveReply> Scheduler::AskForMove(const MoveRequest& request) {
  const LeaseMove* const known = moves_.Find(request.lease());
  if (known != nullptr && (request.to().empty() || request.to() == known->to)) {
    return ReplyOf(*known);
  }
  const auto lease = store_->FindLease(request.lease());
  if (!lease.has_value()) return absl::NotFoundError("there is no such lease");
  MoveReply reply;
  reply.set_server(request.to());
  if (lease->moved.number != 0 && (request.to().empty() || request.to() == lease->server)) {
    reply.set_state(MoveReply::MOVED);
    reply.set_server(lease->server);
    reply.set_device(FormatDeviceNames(lease->devices));
    reply.set_sessions(static_cast<uint32_t>(lease->moved.sessions.size()));
  } else {
    reply.set_state(MoveReply::FAILED);
    reply.set_why(
        "the scheduler knows of no such move: one that began before this scheduler led "
        "is over");
  }
  return reply;
}

absl::Status Scheduler::CheckTarget(const LeaseRecord& lease, absl::Time now,
                                    MoveRequest* request) {
  const std::string& to = request->to();
  if (to.empty()) return absl::OkStatus();
  const auto live = servers_.find(to);
  if (records_.count(to) == 0 || live == servers_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no server ", to));
  }
  const auto unfit = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat("server ", to, " ", why));
  };
  if (to == lease.server) return unfit("has the lease already");
  if (!IsUp(live->second, now)) return unfit("does not report");
  if (live->second.report.draining()) return unfit("is being drained");
  for (const CordonRecord& cordon : store_->Cordons()) {
    if (cordon.server == to) return unfit("is cordoned");
  }
  if (request->device().empty()) return absl::OkStatus();
  std::vector<std::string> uuids;
  for (const auto& device : live->second.report.devices()) uuids.push_back(device.uuid());
  const auto found = FindByUuidName(uuids, request->device());
  if (!found.has_value()) {
    return absl::NotFoundError(
        absl::StrCat("server ", to, " has no device ", Quoted(request->device())));
  }
  request->set_device(uuids[*found]);
  return absl::OkStatus();
}

absl::StatusOr<MoveReply> Scheduler::BeginMove(const LeaseRecord& lease, MoveRequest request,
                                               absl::Time now) {
  if (lease.state != LeaseState::kActive) {
    return absl::FailedPreconditionError(absl::StrCat("the lease was ended: ", lease.reason.text));
  }
  if (lease.devices.size() != 1) {
    return absl::FailedPreconditionError("leases of several devices cannot be moved");
  }
  const auto source = servers_.find(lease.server);
  if (source == servers_.end() || !IsUp(source->second, now)) {
    return absl::FailedPreconditionError(
        absl::StrCat("server ", lease.server, ", which has the lease, does not report"));
  }
  if (auto status = CheckTarget(lease, now, &request); !status.ok()) return status;
  if (moves_.From(lease.server).size() >= kMostMovesFrom) {
    return absl::ResourceExhaustedError(
        absl::StrCat("as many leases of server ", lease.server, " as may be, ", kMostMovesFrom,
                     ", are on the move: wait until one has moved"));
  }
  RefreshServers(now);
  const auto decision = pool_.BeginMove(lease.id, request.to(), request.device(), now);
  if (decision.outcome() != warpline_placement::GRANTED) {
    return absl::Status(static_cast<absl::StatusCode>(decision.code()), decision.message());
  }
  LeaseMove move = {.number = RandomNumber(),
                    .lease = lease.id,
                    .from = lease.server,
                    .to = decision.place().server(),
                    .device = decision.place().devices(0),
                    .deadline = std::min(now + kMoveDeadline, lease.ends)};
  auto ticket = TicketFor(lease, move);
  if (!ticket.ok()) {
    pool_.EndMove(lease.id, "no ticket", now);
    return ticket.status();
  }
  move.ticket = *std::move(ticket);
  LogInfo("moves lease=", lease.id, " tenant=", lease.tenant, " from=", move.from, " to=", move.to,
          " device=", move.device);
  MoveReply reply = ReplyOf(move);
  moves_.Begin(std::move(move));
  return reply;
}

// The server has shown its credential, names no lease and no target, and so moves nothing but what
// it has.
uint32_t Scheduler::MoveAway(const warpline_internal::ServerReport& report, absl::Time now,
                             LiveServer* live) {
  if (!report.leaves() || !report.draining()) {
    live->move_tries.clear();
    return 0;
  }
  uint32_t left = 0;
  for (const LeaseRecord& lease : store_->ActiveLeases()) {
    if (lease.server != report.name()) continue;
    int& tries = live->move_tries[lease.id];
    const bool under_way = moves_.UnderWay(lease.id) != nullptr;
    if (!under_way && tries >= kMostMoveTries) continue;
    if (under_way || moves_.From(report.name()).size() >= kMostMovesFrom) {
      ++left;
      continue;
    }
    ++tries;
    const auto begun = BeginMove(lease, MoveRequest(), now);
    if (begun.ok() || tries < kMostMoveTries) {
      ++left;
    } else if (const LogPermit permit = log_.Ask(ServerKey(report.name()), kServerLine)) {
      permit.Warning("lease=", lease.id, " stays at server=", report.name(),
                     ", which leaves: ", std::string(begun.status().message()));
    }
  }
  return left;
}

absl::StatusOr<std::string> Scheduler::TicketFor(LeaseRecord lease, const LeaseMove& move) {
  lease.server = move.to;
  lease.devices = {move.device};
  LeaseToken ticket = TokenFor(lease, TenantNamed(lease.tenant), lease.holder);
  ticket.moved_from = move.from;
  ticket.move = move.number;
  ticket.expires = move.deadline;
  return SignToken(keys_.SignerAt(Now()), ticket);
}

void Scheduler::TellMoves(const std::string& server, absl::Time now, ReportAnswer* answer) {
  for (const std::string& lease : moves_.From(server)) {
    const LeaseMove& move = *moves_.Find(lease);
    warpline_internal::MoveOrder order;
    order.set_lease(lease);
    order.set_endpoint(records_[move.to].endpoint);
    order.set_server(move.to);
    order.set_ticket(move.ticket);
    const int64_t left_ms = absl::ToInt64Milliseconds(move.deadline - now);
    // One that is late ends with the next housekeeping.
    if (left_ms <= 0) continue;
    order.set_expires_in_ms(static_cast<uint32_t>(left_ms));
    if (!answer->AddMove(order)) return;
  }
}

// --- The other server's request.

absl::StatusOr<LeaseToken> Scheduler::OpenTicket(const MoveCommit& commit, absl::Time now) {
  auto ticket = OpenToken(commit.ticket(), keys_.VerifyKeys());
  if (ticket.ok()) {
    if (auto status = CheckTicket(*ticket, commit.name(), now); !status.ok()) ticket = status;
  }
  return ticket;
}

absl::Status Scheduler::CheckCommit(const LeaseToken& ticket, absl::Time now) {
  const LeaseMove* const move = moves_.Find(ticket.lease);
  if (move == nullptr) {
    return absl::FailedPreconditionError(
        "the scheduler knows of no such move: one that began before this scheduler led is over");
  }
  if (move->number != ticket.move) {
    return absl::FailedPreconditionError("the ticket is of an earlier move of the lease");
  }
  if (move->state == LeaseMove::State::kFailed) {
    return absl::FailedPreconditionError(absl::StrCat("the move is over: ", move->why));
  }
  if (move->state != LeaseMove::State::kMoving) {
    return absl::FailedPreconditionError("the lease has moved, and moved on since");
  }
  const LeaseNotice* const notice = pool_.NoticeFor(ticket.lease);
  if (notice != nullptr && notice->deadline <= now) {
    return absl::FailedPreconditionError(
        absl::StrCat("the lease is about to end: ", notice->reason.text));
  }
  const LiveServer& target = servers_[move->to];
  const bool has_device = absl::c_any_of(
      target.report.devices(), [&](const auto& device) { return device.uuid() == move->device; });
  if (!has_device) return absl::FailedPreconditionError("its new device is not there any more");
  if (target.report.draining()) {
    return absl::FailedPreconditionError(absl::StrCat("server ", move->to, " is being drained"));
  }
  return absl::OkStatus();
}

absl::StatusOr<MoveCommitReply> Scheduler::TokenAtTarget(const LeaseRecord& lease) {
  if (lease.state != LeaseState::kActive) {
    return absl::FailedPreconditionError(
        absl::StrCat("the lease was ended: ", ReasonForHolder(lease.reason)));
  }
  const auto granted = ReplyFor(lease, TenantNamed(lease.tenant), lease.holder);
  if (!granted.ok()) return granted.status();
  MoveCommitReply reply;
  reply.set_token(granted->token());
  return reply;
}

absl::StatusOr<MoveCommitReply> Scheduler::CommitMove(const MoveCommit& commit, bool local) {
  if (commit.name().size() > kMaxText || commit.ticket().size() > kMaxTokenText) {
    return absl::InvalidArgumentError("a malformed request");
  }
  if (auto status = CheckSessions(commit); !status.ok()) return status;
  MutexLock lock(&mu_);
  if (auto status = CheckServer(commit.name(), commit.credential(), local); !status.ok()) {
    return status;
  }
  const absl::Time now = Now();
  // Its answer may have been lost, for longer than the ticket is good.
  const auto before = OpenToken(commit.ticket(), keys_.VerifyKeys());
  auto lease = before.ok() ? store_->FindLease(before->lease) : std::nullopt;
  if (lease.has_value() && before->move != 0 && lease->moved.number == before->move &&
      lease->server == commit.name()) {
    if (NumbersOf(commit) == lease->moved.sessions) return TokenAtTarget(*lease);
    ++counts_.rejected;
    return absl::FailedPreconditionError("the move was committed with other sessions");
  }
  const auto ticket = OpenTicket(commit, now);
  if (!ticket.ok()) {
    ++counts_.rejected;
    return ticket.status();
  }
  if (auto status = CheckCommit(*ticket, now); !status.ok()) {
    const LeaseMove* const move = moves_.UnderWay(ticket->lease);
    if (move != nullptr && move->number == ticket->move) {
      FailMove(ticket->lease, std::string(status.message()), now);
    }
    return status;
  }
  const LeaseMove move = *moves_.Find(ticket->lease);
  // Whatever ends a lease ends its move.
  if (!lease.has_value() || lease->state != LeaseState::kActive) {
    return absl::FailedPreconditionError("the lease is over");
  }
  lease->moved = {.number = move.number,
                  .from = move.from,
                  .from_instance = servers_[move.from].instance.number(),
                  .at = now};
  lease->moved.sessions = NumbersOf(commit);
  lease->server = move.to;
  lease->devices = {move.device};
  // Its new server has not reported it yet.
  lease->expires = std::min(now + options_.lease_ttl, lease->ends);
  if (auto status = store_->UpdateLease(*lease); !status.ok()) return status;
  pool_.CommitMove(lease->id, now);
  renewals_.Forget(lease->id);
  const auto sessions = static_cast<uint32_t>(commit.sessions_size());
  moves_.Moved(lease->id, sessions, commit.bytes(), now);
  ++counts_.moved;
  LogInfo("moved lease=", lease->id, " tenant=", lease->tenant, " from=", move.from,
          " to=", move.to, " device=", move.device, " sessions=", sessions,
          " bytes=", commit.bytes());
  TellNotices(now);
  return TokenAtTarget(*lease);
}

// --- The request of the server that had the lease.

absl::StatusOr<MoveEndReply> Scheduler::EndMove(const MoveEnd& end, bool local) {
  if (std::max(end.name().size(), end.lease().size()) > kMaxText) {
    return absl::InvalidArgumentError("a malformed request");
  }
  MutexLock lock(&mu_);
  if (auto status = CheckServer(end.name(), end.credential(), local); !status.ok()) return status;
  const auto lease = FindLease(end.lease());
  if (!lease.ok()) return lease.status();
  MoveEndReply reply;
  if (lease->server == end.name()) {
    FailMove(
        lease->id,
        absl::StrCat("server ", end.name(), " could not send it: ", FitText(end.why(), kMaxText)),
        Now());
    return reply;
  }
  if (lease->moved.from != end.name()) {
    ++counts_.rejected;
    return absl::PermissionDeniedError(
        absl::StrCat("the lease does not move from server ", end.name()));
  }
  reply.set_moved(true);
  reply.set_endpoint(records_[lease->server].endpoint);
  for (const auto& [from, to] : lease->moved.sessions) {
    auto* const session = reply.add_sessions();
    session->set_from(from);
    session->set_to(to);
  }
  return reply;
}

// --- Moves that fail.

void Scheduler::FailMove(const std::string& lease, const std::string& why, absl::Time now) {
  const LeaseMove* const move = moves_.UnderWay(lease);
  if (move == nullptr) return;
  LogInfo("move failed lease=", lease, " from=", move->from, " to=", move->to,
          " reason=", Quoted(why));
  ++counts_.moves_failed;
  moves_.Failed(lease, why, now);
  pool_.EndMove(lease, why, now);
}

void Scheduler::NoteEndedMoves(absl::Time now) {
  for (const auto& [id, why] : pool_.TakeEndedMoves()) {
    const auto lease = store_->FindLease(id);
    const bool ended = lease.has_value() && lease->state != LeaseState::kActive;
    FailMove(id, ended ? absl::StrCat("the lease was ended: ", lease->reason.text) : why, now);
  }
}

void Scheduler::HousekeepMoves(absl::Time now) {
  for (const std::string& lease : moves_.Late(now)) {
    FailMove(lease, "the servers did not finish it in time", now);
  }
  moves_.Forget(now);
}

bool Scheduler::MayStillReport(const warpline_internal::ServerReport& report,
                               const LeaseRecord& lease, absl::Time now) const {
  // The clock of the scheduler that led then may have been a little ahead.
  return lease.moved.from == report.name() && lease.moved.from_instance == report.instance() &&
         absl::AbsDuration(now - lease.moved.at) < kFreshMove;
}

}  // namespace warpline::scheduler
