#include "scheduler/methods.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/audited_method.h"
#include "common/serving/listen_address.h"
#include "proto/admin.pb.h"
#include "proto/lease_methods.h"
#include "proto/leases.pb.h"
#include "proto/report_limits.h"
#include "proto/scheduler.pb.h"
#include "scheduler/request_shape.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::AcquireRequest;
using warpline_internal::CordonRequest;
using warpline_internal::LeaseToken;
using warpline_internal::MoveCommit;
using warpline_internal::MoveEnd;
using warpline_internal::MoveRequest;
using warpline_internal::Nothing;
using warpline_internal::Operator;
using warpline_internal::RevokeRequest;
using warpline_internal::ServerReport;
using warpline_internal::ServerRequest;
using warpline_internal::SessionsReport;
using warpline_internal::SliceRequest;
using warpline_internal::StatRequest;
using warpline_internal::TenantRequest;
using warpline_internal::WithdrawRequest;

// A server begins another message before one has more than kMostReportBytes; the rest is slack.
constexpr size_t kMostReportMessageBytes = kMostReportBytes + (64u << 10);
constexpr size_t kMostRequestBytes = 64u << 10;

constexpr char kReport[] = "Report";
constexpr char kReportSessions[] = "ReportSessions";
constexpr char kCommitMove[] = "CommitMove";
constexpr char kEndMove[] = "EndMove";

absl::StatusOr<Nothing> Done(const absl::Status& status) {
  if (!status.ok()) return status;
  return Nothing();
}

template <typename Request>
bool Parse(const std::string& bytes, Request* request) {
  return HasFewParts(bytes, *Request::descriptor()) && request->ParseFromString(bytes);
}

// Parses the request, calls `body(request, peer)` and serializes its reply.
template <typename Request, typename Body>
auto PeerMethod(Body body) {
  return [body](const std::string& peer, const std::string& bytes) -> absl::StatusOr<std::string> {
    Request request;
    if (!Parse(bytes, &request)) return absl::InvalidArgumentError("a malformed request");
    const auto reply = body(request, peer);
    if (!reply.ok()) return reply.status();
    return reply->SerializeAsString();
  };
}

// Has credentials noted with which a method was called that succeeded.
void NoteKnown(KnownCredentials* known, const std::string& path, UnaryMethods* methods) {
  auto& method = (*methods)[path];
  method = [known, method = std::move(method)](const std::string& peer, const std::string& bytes) {
    absl::StatusOr<std::string> reply = method(peer, bytes);
    if (reply.ok()) known->Note(LeadingCredential(bytes));
    return reply;
  };
}

// The same with `body(request, local)`.
template <typename Request, typename Body>
auto Method(Body body) {
  return PeerMethod<Request>([body](const Request& request, const std::string& peer) {
    return body(request, IsLocalPeer(peer));
  });
}

// The same with `body(scheduler, request)` of the scheduler that leads.
template <typename Request, typename Body>
auto Leading(Role* role, Body body) {
  return Method<Request>([role, body](const Request& request, bool) {
    return AnswerLeading(role, [&](Scheduler& scheduler) { return body(scheduler, request); });
  });
}

std::string Path(const char* name) { return absl::StrCat("/warpline_internal.Scheduler/", name); }

// What is recorded of an operator's requests: never the credential.
audit::Record Describe(const TenantRequest& request) {
  return {.event = audit::Event::kAdminTenant,
          .texts = {{"action", request.create() ? "add" : "change"}, {"name", request.name()}}};
}
audit::Record Describe(const ServerRequest& request) {
  return {.event = audit::Event::kAdminServer,
          .texts = {{"action", request.create() ? "add" : "change"}, {"name", request.name()}}};
}
audit::Record Describe(const SliceRequest& request) {
  return {.event = audit::Event::kAdminSlice,
          .texts = {{"action", request.create() ? "add" : "change"}, {"name", request.name()}}};
}
audit::Record Describe(const CordonRequest& request) {
  return {.event = audit::Event::kAdminServer,
          .texts = {{"action", !request.cordoned()           ? "uncordon"
                               : request.has_drained_in_ms() ? "drain"
                                                             : "cordon"},
                    {"name", request.name()}}};
}
audit::Record Describe(const RevokeRequest& request) {
  return {.event = audit::Event::kAdminRevoke,
          .tenant = request.tenant(),
          .lease = request.lease(),
          .texts = {{"why", request.reason()}}};
}
audit::Record Describe(const MoveRequest& request) {
  return {.event = audit::Event::kAdminMove,
          .lease = request.lease(),
          .texts = {{"to", request.to()}, {"device", request.device()}}};
}

// Requests that change nothing are not recorded.
template <typename Request>
bool OnlyAsks(const Request&) {
  return false;
}
bool OnlyAsks(const MoveRequest& request) { return request.only_ask(); }

// Has the calls of a method recorded; with `removes`, as those that remove something.
template <typename Request>
void Audit(audit::AuditLog* log, const char* name, bool removes, UnaryMethods* methods) {
  audit::Method& method = (*methods)[Path(name)];
  method = audit::Audited(
      log,
      [removes](const std::string& bytes) -> std::optional<audit::Record> {
        Request request;
        // What cannot be read is refused, and recorded as nothing in particular.
        if (!Parse(bytes, &request)) request.Clear();
        if (OnlyAsks(request)) return std::nullopt;
        audit::Record record = Describe(request);
        if (removes) record.texts[0].second = "remove";
        return record;
      },
      std::move(method));
}

}  // namespace

UnaryMethods SchedulerMethods(Role* role, const std::string& name, audit::AuditLog* audit,
                              KnownCredentials* known) {
  UnaryMethods methods;
  methods[kAcquireMethod] =
      PeerMethod<AcquireRequest>([=](const auto& request, const std::string& peer) {
        return AnswerLeading(role, [&](Scheduler& scheduler) {
          return scheduler.Acquire(request, /*by_sessions=*/false, IsLocalPeer(peer),
                                   HolderOf(peer), peer);
        });
      });
  methods[kRenewMethod] = PeerMethod<LeaseToken>([=](const auto& request, const std::string& peer) {
    return AnswerLeading(role, [&](Scheduler& scheduler) {
      return scheduler.Renew(request.token(), HolderOf(peer));
    });
  });
  methods[kReleaseMethod] =
      PeerMethod<LeaseToken>([=](const auto& request, const std::string& peer) {
        return AnswerLeading(role, [&](Scheduler& scheduler) {
          return Done(scheduler.Release(request.token(), HolderOf(peer)));
        });
      });
  methods[Path(kReport)] = Method<ServerReport>([=](const auto& request, bool local) {
    return AnswerLeading(role,
                         [&](Scheduler& scheduler) { return scheduler.Report(request, local); });
  });
  methods[Path(kReportSessions)] = Method<SessionsReport>([=](const auto& request, bool local) {
    return AnswerLeading(
        role, [&](Scheduler& scheduler) { return Done(scheduler.ReportSessions(request, local)); });
  });
  methods[Path("PutTenant")] = Leading<TenantRequest>(
      role, [](Scheduler& scheduler, const auto& request) { return scheduler.PutTenant(request); });
  methods[Path("RemoveTenant")] =
      Leading<TenantRequest>(role, [](Scheduler& scheduler, const auto& request) {
        return Done(scheduler.RemoveTenant(request));
      });
  methods[Path(kCommitMove)] = Method<MoveCommit>([=](const auto& request, bool local) {
    return AnswerLeading(
        role, [&](Scheduler& scheduler) { return scheduler.CommitMove(request, local); });
  });
  methods[Path(kEndMove)] = Method<MoveEnd>([=](const auto& request, bool local) {
    return AnswerLeading(role,
                         [&](Scheduler& scheduler) { return scheduler.EndMove(request, local); });
  });
  methods[Path("Move")] = Leading<MoveRequest>(
      role, [](Scheduler& scheduler, const auto& request) { return scheduler.Move(request); });
  methods[Path("Revoke")] = Leading<RevokeRequest>(
      role,
      [](Scheduler& scheduler, const auto& request) { return Done(scheduler.Revoke(request)); });
  methods[Path("PutServer")] = Leading<ServerRequest>(
      role, [](Scheduler& scheduler, const auto& request) { return scheduler.PutServer(request); });
  methods[Path("RemoveServer")] =
      Leading<ServerRequest>(role, [](Scheduler& scheduler, const auto& request) {
        return Done(scheduler.RemoveServer(request));
      });
  methods[Path("PutSlice")] = Leading<SliceRequest>(
      role,
      [](Scheduler& scheduler, const auto& request) { return Done(scheduler.PutSlice(request)); });
  methods[Path("RemoveSlice")] =
      Leading<SliceRequest>(role, [](Scheduler& scheduler, const auto& request) {
        return Done(scheduler.RemoveSlice(request));
      });
  methods[Path("CordonServer")] =
      Leading<CordonRequest>(role, [](Scheduler& scheduler, const auto& request) {
        return Done(scheduler.CordonServer(request));
      });
  methods[kWithdrawMethod] =
      PeerMethod<WithdrawRequest>([=](const auto& request, const std::string& peer) {
        return AnswerLeading(role, [&](Scheduler& scheduler) {
          return Done(scheduler.Withdraw(request, IsLocalPeer(peer), peer));
        });
      });
  methods["/warpline_internal.Admin/Stat"] =
      PeerMethod<StatRequest>([=](const auto& request, const std::string& peer) {
        return AnswerLeading(
            role, [&](Scheduler& scheduler) { return scheduler.Stat(request, name, peer); });
      });
  methods[Path("Tenants")] = Method<Operator>([=](const auto& request, bool) {
    return AnswerReading(role, [&](Scheduler& scheduler) {
      return scheduler.Tenants(request.credential(), request.page());
    });
  });
  methods[Path("Slices")] = Method<Operator>([=](const auto& request, bool) {
    return AnswerReading(role, [&](Scheduler& scheduler) {
      return scheduler.Slices(request.credential(), request.page());
    });
  });
  methods[Path("Leases")] = Method<Operator>([=](const auto& request, bool) {
    return AnswerReading(role, [&](Scheduler& scheduler) {
      return scheduler.Leases(request.credential(), request.page());
    });
  });
  methods[Path("Servers")] = Method<Operator>([=](const auto& request, bool) {
    return AnswerReading(role, [&](Scheduler& scheduler) {
      return scheduler.Servers(request.credential(), request.page());
    });
  });
  Audit<TenantRequest>(audit, "PutTenant", /*removes=*/false, &methods);
  Audit<TenantRequest>(audit, "RemoveTenant", /*removes=*/true, &methods);
  Audit<SliceRequest>(audit, "PutSlice", /*removes=*/false, &methods);
  Audit<SliceRequest>(audit, "RemoveSlice", /*removes=*/true, &methods);
  Audit<ServerRequest>(audit, "PutServer", /*removes=*/false, &methods);
  Audit<ServerRequest>(audit, "RemoveServer", /*removes=*/true, &methods);
  Audit<CordonRequest>(audit, "CordonServer", /*removes=*/false, &methods);
  Audit<RevokeRequest>(audit, "Revoke", /*removes=*/false, &methods);
  Audit<MoveRequest>(audit, "Move", /*removes=*/false, &methods);
  // Those whose first field is a credential.
  NoteKnown(known, kAcquireMethod, &methods);
  for (const char* const with_credential :
       {kReport, kReportSessions, kCommitMove, kEndMove, "Move", "PutTenant", "RemoveTenant",
        "PutSlice", "RemoveSlice", "PutServer", "RemoveServer", "CordonServer", "Revoke", "Tenants",
        "Slices", "Leases", "Servers"}) {
    NoteKnown(known, Path(with_credential), &methods);
  }
  return methods;
}

UnaryMethodQueues SchedulerQueues(const UnaryMethods& methods, const KnownCredentials* known) {
  constexpr size_t kReports = 0;
  constexpr size_t kLeases = 1;
  constexpr size_t kOthers = 2;
  const auto queue = [known](size_t number, size_t most_bytes) {
    return UnaryQueue{
        .number = number,
        .admit = [known, most_bytes](const std::string& peer,
                                     const std::string& request) -> absl::StatusOr<UnaryCaller> {
          if (request.size() > most_bytes) {
            return absl::InvalidArgumentError(absl::StrCat("a request of ", request.size(),
                                                           " bytes, where at most ", most_bytes,
                                                           " are taken"));
          }
          const std::string hash = known->Find(LeadingCredential(request));
          if (!hash.empty()) return UnaryCaller{.name = hash, .known = true};
          return UnaryCaller{.name = PeerUnit(peer)};
        }};
  };
  UnaryMethodQueues queues;
  for (const auto& [path, method] : methods) queues[path] = queue(kOthers, kMostRequestBytes);
  for (const char* const name : {kReport, kReportSessions}) {
    queues[Path(name)] = queue(kReports, kMostReportMessageBytes);
  }
  // A session rests until its new server has its answer.
  for (const char* const name : {kCommitMove, kEndMove}) {
    queues[Path(name)] = queue(kReports, kMostRequestBytes);
  }
  for (const char* const path : {kAcquireMethod, kRenewMethod, kReleaseMethod, kWithdrawMethod}) {
    queues[path] = queue(kLeases, kMostRequestBytes);
  }
  return queues;
}

}  // namespace warpline::scheduler
