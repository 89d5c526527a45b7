#include "audit/audited_method.h"

#include <utility>

namespace warpline::audit {
namespace {

constexpr char kNotRecorded[] =
    "the audit's record cannot be written, and with --audit=required operators' actions are "
    "refused until it can: the program's log says why";

}  // namespace

Method Audited(AuditLog* log, Describe describe, Method method) {
  if (log == nullptr) return method;
  return [log, describe = std::move(describe), method = std::move(method)](
             const std::string& peer, const std::string& request) {
    auto record = describe(request);
    if (!record.has_value()) return method(peer, request);
    absl::StatusOr<std::string> reply = absl::UnavailableError(kNotRecorded);
    if (log->takes_operators()) reply = method(peer, request);
    // Only now it is known that the caller is an operator.
    record->done = reply.ok();
    record->peer = peer;
    record->texts.emplace_back("outcome", absl::StatusCodeToString(reply.status().code()));
    record->texts.emplace_back("reason", std::string(reply.status().message()));
    log->Add(*std::move(record));
    return reply;
  };
}

}  // namespace warpline::audit
