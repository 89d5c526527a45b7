// Calls that are an operator's, and calls that nobody serves.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/admin.pb.h"
#include "proto/lease_methods.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"
#include "transport/grpc/unary/unary_client.h"

namespace warpline::attack {
namespace {

absl::StatusOr<std::string> Call(const WireTarget& target, const std::string& method,
                                 const std::string& request) {
  return UnaryClient(GrpcTarget{target.endpoint}).Call(method, request, kPatience);
}

// Stopped when there is no such method for this client, or it may not be called. Whatever else is
// wrong with a call is not what stops it.
WireResult JudgeCall(const absl::StatusOr<std::string>& answer) {
  if (answer.ok()) return Succeeded(absl::StrCat("answered with ", answer->size(), " bytes"));
  return absl::IsUnimplemented(answer.status()) || absl::IsPermissionDenied(answer.status())
             ? Stopped(std::string(answer.status().message()))
             : Succeeded(absl::StrCat("not refused as such: ", answer.status().ToString()));
}

// Who runs what, from where: for the operator alone.
WireResult WhoRunsWhat(const WireTarget& target) {
  return JudgeCall(Call(target, "/warpline_internal.Admin/Stat",
                        warpline_internal::StatRequest().SerializeAsString()));
}

WireResult ReplaceWorkers(const WireTarget& target) {
  auto victim = WireSession::Open(target);
  if (!victim.ok()) return Unprepared(victim.status());
  warpline_internal::ReplaceRequest request;
  request.set_session((*victim)->welcome().session());
  request.set_deadline_ms(1000);
  return JudgeCall(Call(target, "/warpline_internal.Admin/Replace", request.SerializeAsString()));
}

WireResult GuessTicket(const WireTarget& target) {
  for (uint64_t ticket = 1; ticket < 20; ++ticket) {
    warpline_internal::ReplaceRequest request;
    request.set_ticket(ticket);
    // That there is no such ticket is an answer, and the right ticket would have another.
    const WireResult judged =
        JudgeCall(Call(target, "/warpline_internal.Admin/Replace", request.SerializeAsString()));
    if (judged.outcome != WireOutcome::kStopped) return judged;
  }
  return Stopped("19 tickets were not looked at");
}

// Methods of a scheduler, of a supervisor and of the server's operator, asked of a server as a
// client.
WireResult OthersMethods(const WireTarget& target) {
  for (const char* const method :
       {"/warpline_internal.Scheduler/Revoke", "/warpline_internal.Scheduler/Report",
        "/warpline_internal.Scheduler/PutTenant", "/warpline_internal.Admin/Shutdown",
        "/warpline_internal.Admin/Policy", "/warpline_internal.Admin/Trace",
        "/warpline_internal.Admin/Upgrade", "/warpline_internal.Supervisor/Start", "/a/b/c"}) {
    const WireResult judged = JudgeCall(Call(target, method, ""));
    if (judged.outcome != WireOutcome::kStopped) {
      return Succeeded(absl::StrCat(method, ": ", judged.detail));
    }
  }
  return Stopped("none is there");
}

WireResult GarbageForMethods(const WireTarget& target) {
  for (const char* const method : {kAcquireMethod, kRenewMethod, kReleaseMethod, kWithdrawMethod,
                                   "/warpline_internal.Devices/Status"}) {
    for (const std::string& request :
         {std::string(1000, '\xff'), std::string(8 << 20, '\x0a'), std::string(64 << 10, '\0')}) {
      const auto answer = Call(target, method, request);
      if (absl::IsDeadlineExceeded(answer.status())) return Succeeded("no answer");
      if (answer.ok()) return Succeeded("it was answered");
    }
  }
  return JudgeNeighbour(target, "malformed calls");
}

WireResult ManyCalls(const WireTarget& target) {
  const Footprint before = Measure(target);
  for (int i = 0; i < 150 * target.scale; ++i) {
    (void)Call(target, i % 2 == 0 ? "/warpline_internal.Admin/Stat" : "/nobody/Serves",
               std::string(60'000, 'x'))
        .ok();
  }
  return JudgeGrowth(target, before, {64 << 10, 300, 100, 200'000});
}

constexpr WireAttack kAttacks[] = {
    {"who_runs_what", "M1", "", &WhoRunsWhat},
    {"replace_anothers_worker", "M1", "", &ReplaceWorkers},
    {"guess_an_operators_ticket", "M1", "", &GuessTicket},
    {"methods_of_others", "-", "", &OthersMethods},
    {"garbage_for_methods", "-", "", &GarbageForMethods},
    {"calls_by_the_hundred", "M6", "", &ManyCalls},
};

}  // namespace

absl::Span<const WireAttack> AdminAttacks() { return kAttacks; }

}  // namespace warpline::attack
