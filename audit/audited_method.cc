#include "audit/audited_method.h"

#include <utility>

namespace warpline::audit {

Method Audited(AuditLog* log, Describe describe, Method method) {
  if (log == nullptr) return method;
  return [log, describe = std::move(describe), method = std::move(method)](
             const std::string& peer, const std::string& request) {
    auto record = describe(request);
    auto reply = method(peer, request);
    if (!record.has_value()) return reply;
    record->peer = peer;
    record->texts.emplace_back("outcome", absl::StatusCodeToString(reply.status().code()));
    record->texts.emplace_back("reason", std::string(reply.status().message()));
    log->Add(*std::move(record));
    return reply;
  };
}

}  // namespace warpline::audit
