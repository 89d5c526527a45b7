#include "server/gpu_server/admin/scheduler_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/crypto/secret.h"
#include "common/steady_time.h"
#include "common/text.h"
#include "proto/leases.pb.h"
#include "proto/report_limits.h"
#include "server/gpu_server/admin/admin_service.h"
#include "server/gpu_server/admin/report_parts.h"
#include "transport/grpc/grpc_client.h"
#include "transport/loop_thread.h"

namespace warpline::server {
namespace {

using warpline_internal::ReportReply;
using warpline_internal::ServerReport;
using warpline_internal::SessionsReport;

constexpr char kReport[] = "/warpline_internal.Scheduler/Report";
constexpr char kCommitMove[] = "/warpline_internal.Scheduler/CommitMove";
constexpr char kEndMove[] = "/warpline_internal.Scheduler/EndMove";
constexpr char kReportSessions[] = "/warpline_internal.Scheduler/ReportSessions";
// For another server to answer, to which a lease moves.
constexpr absl::Duration kMoveDial = absl::Seconds(10);
constexpr absl::Duration kRetry = absl::Seconds(1);
// Where there are several schedulers, one may be about to take over.
constexpr absl::Duration kRetrySeveral = absl::Milliseconds(100);
constexpr absl::Duration kAttempt = absl::Milliseconds(500);

enum LinkLine : size_t { kNoAnswerLine, kConnectedLine, kEndingLine, kMoreLine, kLinkLineCount };
constexpr LogKind kLinkLines[kLinkLineCount] = {{"no_answer", 20, absl::Minutes(1)},
                                                {"connected", 20, absl::Minutes(1)},
                                                {"ending", 200, absl::Minutes(1)},
                                                {"more_sessions", 2, absl::Minutes(1)}};

}  // namespace

SchedulerLink::SchedulerLink(SchedulerLinkOptions options, SessionHost* host, LeaseBook* book)
    : options_(std::move(options)),
      host_(host),
      book_(book),
      client_(options_.schedulers, options_.target, kAttempt),
      instance_(RandomNumber()),
      log_(kLinkLines) {
  host_->StartMoves(ServicesForMoves());
  thread_ = StartLoopThread("wl-sched", [this] { Run(); });
}

SchedulerLink::~SchedulerLink() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    stop_.NotifyAll();
  }
  thread_.join();
  host_->StopMoves();
  // So that it is given no lease between its end and the scheduler's noticing that.
  if (connected_) ReportOnce(/*goodbye=*/true);
}

MoveServices SchedulerLink::ServicesForMoves() {
  MoveServices services;
  services.dial = [this](const std::string& endpoint, ChannelHandler* handler) {
    return DialGrpc(options_.target(endpoint), handler, ChannelOptions(), kMoveDial);
  };
  services.space = options_.space;
  services.commit = [this](warpline_internal::MoveCommit request) -> absl::StatusOr<std::string> {
    request.set_credential(options_.credential);
    request.set_name(book_->options().server_name);
    auto reply = CallUnary<warpline_internal::MoveCommitReply>(&client_, kCommitMove, request,
                                                               options_.answer_timeout);
    if (!reply.ok()) return reply.status();
    return reply->token();
  };
  services.end = [this](const std::string& lease, const std::string& why) {
    warpline_internal::MoveEnd request;
    request.set_credential(options_.credential);
    request.set_name(book_->options().server_name);
    request.set_lease(lease);
    request.set_why(why);
    return CallUnary<warpline_internal::MoveEndReply>(&client_, kEndMove, request,
                                                      options_.answer_timeout);
  };
  return services;
}

void SchedulerLink::Run() {
  while (true) {
    const absl::Time next = SteadyNow() + ReportOnce();
    MutexLock lock(&mu_);
    while (!stopping_ && SteadyNow() < next && leaves_ == asked_to_move_) {
      stop_.WaitWithTimeout(&mu_, std::max(next - SteadyNow(), absl::Milliseconds(1)));
    }
    if (stopping_) return;
  }
}

void SchedulerLink::MoveAway(absl::Time deadline) {
  MutexLock lock(&mu_);
  leaves_ = true;
  stop_.NotifyAll();
  while (!moved_away_ && SteadyNow() < deadline) {
    stop_.WaitWithTimeout(&mu_, std::max(deadline - SteadyNow(), absl::Milliseconds(1)));
  }
}

void SchedulerLink::AskForGroups() {
  constexpr int kTimes = 20;
  const bool known = std::any_of(groups_.numa.begin(), groups_.numa.end(),
                                 [](uint32_t group) { return group != 0; });
  if (!options_.groups || known || asked_for_groups_ >= kTimes) return;
  ++asked_for_groups_;
  groups_ = options_.groups();
}

absl::Duration SchedulerLink::ReportOnce(bool goodbye) {
  for (const EndedLease& over : book_->TakeEnded()) EndLease(over.lease, over.reason);
  ServerReport report;
  report.set_credential(options_.credential);
  report.set_name(book_->options().server_name);
  report.set_endpoint(options_.endpoint);
  report.set_version(options_.version);
  report.set_heard(connected_);
  report.set_instance(instance_);
  report.set_number(++reports_);
  report.set_goodbye(goodbye);
  {
    MutexLock lock(&mu_);
    report.set_leaves(leaves_ && !goodbye);
    asked_to_move_ = leaves_;
  }
  if (options_.audit_head) report.set_audit_head(options_.audit_head());
  // Before the sessions: a session that ends in between is reported once too often, not too rarely.
  const std::vector<std::string> idle = book_->IdleLeases();
  for (const std::string& lease : idle) {
    if (report.idle_leases_size() < kMostReportedSessions) report.add_idle_leases(lease);
  }
  for (const auto& [lease, sessions] : book_->Sessions()) {
    if (report.leases_size() == kMostReportedSessions) break;
    auto* added = report.add_leases();
    added->set_lease(lease);
    added->set_sessions(sessions);
  }
  const HostSnapshot snapshot = host_->Snapshot();
  report.set_draining(snapshot.draining);
  AskForGroups();
  for (size_t i = 0; i < snapshot.devices.size(); ++i) {
    const DeviceSnapshot& device = snapshot.devices[i];
    auto* added = report.add_devices();
    added->set_uuid(device.uuid);
    added->set_name(device.name);
    added->set_backend(device.backend);
    added->set_driver_version(device.info.driver_version());
    added->set_capacity_bytes(device.offered_bytes);
    added->set_granted_bytes(device.memory.pool.used_bytes());
    if (i < groups_.nvlink.size()) added->set_nvlink_group(groups_.nvlink[i]);
    if (i < groups_.numa.size()) added->set_numa_group(groups_.numa[i]);
  }
  ReportParts parts(&report);
  for (const SessionSnapshot& session : snapshot.sessions) {
    warpline_internal::SessionStat stat;
    FillSessionStat(session, &stat);
    parts.Add(std::move(stat));
  }
  const std::vector<SessionsReport> more = parts.Finish();
  auto reply = CallUnary<ReportReply>(&client_, kReport, report, options_.answer_timeout);
  if (reply.ok() && reply->epoch() < epoch_) {
    reply = absl::UnavailableError("a scheduler answered that does not lead any more");
  }
  if (!reply.ok()) {
    const std::string trouble(reply.status().message());
    const bool duplicate = absl::IsAlreadyExists(reply.status());
    // Once for each kind of trouble, not once a second.
    if (connected_ || trouble_.empty() || duplicate || absl::IsUnauthenticated(reply.status())) {
      if (trouble != trouble_) {
        if (const LogPermit permit = log_.Ask(kNoAnswerLine)) {
          permit.Warning("no answer from scheduler=", client_.address(), " error=\"", trouble,
                         "\": sessions go on");
        }
      }
    }
    connected_ = false;
    trouble_ = trouble;
    return options_.schedulers.size() > 1 && !duplicate ? kRetrySeveral : kRetry;
  }
  epoch_ = reply->epoch();
  if (!std::exchange(connected_, true)) {
    if (const LogPermit permit = log_.Ask(kConnectedLine)) {
      permit.Info("connected scheduler=", client_.address());
    }
  }
  trouble_.clear();
  book_->ForgetIdle(idle);
  Apply(*reply);
  if (report.leaves()) {
    MutexLock lock(&mu_);
    moved_away_ = reply->leases_to_move() == 0;
    stop_.NotifyAll();
  }
  ReportMore(more);
  return std::clamp<absl::Duration>(absl::Milliseconds(reply->interval_ms()),
                                    absl::Milliseconds(10), absl::Minutes(10));
}

// Sessions that do not arrive are reported anew with the next report.
void SchedulerLink::ReportMore(const std::vector<SessionsReport>& more) {
  for (const SessionsReport& part : more) {
    const auto done = CallUnary<warpline_internal::Nothing>(&client_, kReportSessions, part,
                                                            options_.answer_timeout);
    if (done.ok()) continue;
    if (const LogPermit permit = log_.Ask(kMoreLine)) {
      permit.Warning("not all sessions could be reported to scheduler=", client_.address(),
                     " error=\"", std::string(done.status().message()), "\"");
    }
    return;
  }
}

void SchedulerLink::Apply(const ReportReply& reply) {
  std::vector<VerifyKey> keys;
  for (const auto& key : reply.keys()) keys.push_back({key.id(), key.key()});
  book_->SetKeys(std::move(keys));
  if (reply.now_unix_ms() > 0) {
    book_->SetSchedulerTime(absl::FromUnixMillis(reply.now_unix_ms()));
  }
  for (const auto& ended : reply.ended()) {
    EndLease(ended.lease(), {ended.reason(), EndCauseOf(ended.cause())});
  }
  std::map<std::string, std::string> ending;
  for (const auto& one : reply.ending()) {
    ending[one.lease()] = one.reason();
    const auto told = ending_.find(one.lease());
    if (told != ending_.end() && told->second == one.reason()) continue;
    if (const LogPermit permit = log_.Ask(kEndingLine)) {
      permit.Info("ends soon lease=", one.lease(), " in_seconds=", one.ends_in_ms() / 1000,
                  " reason=", Quoted(one.reason()));
    }
  }
  ending_ = std::move(ending);
  for (const auto& order : reply.moves()) host_->MoveLease(order);
}

void SchedulerLink::EndLease(const std::string& lease, const EndReason& reason) {
  book_->MarkEnded(lease, reason);
  host_->EndLease(lease, reason);
}

}  // namespace warpline::server
