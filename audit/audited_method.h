// A unary method whose calls are recorded: who asked an operator's question, and what came of it.
#ifndef WARPLINE_AUDIT_AUDITED_METHOD_H_
#define WARPLINE_AUDIT_AUDITED_METHOD_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "audit/audit_log.h"
#include "audit/record.h"

namespace warpline::audit {

using Method =
    std::function<absl::StatusOr<std::string>(const std::string& peer, const std::string& request)>;
// What a request is recorded as, besides its peer and outcome; none for what only asks. The
// request may hold anything.
using Describe = std::function<std::optional<Record>(const std::string& request)>;

// `log` is borrowed, or null for a method that is not recorded. The record's `outcome` is "OK" or
// the name of the error, whose text goes into `reason`. What was done is recorded whatever others
// ask for; calls that fail have a budget, since anybody can make them.
//
// The method returns UNAVAILABLE, and does nothing, while records are required and cannot be
// written (AuditLog::takes_operators()). Requests without a record are answered all the same.
Method Audited(AuditLog* log, Describe describe, Method method);

}  // namespace warpline::audit

#endif  // WARPLINE_AUDIT_AUDITED_METHOD_H_
