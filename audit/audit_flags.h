// The flags of a server program about its audit: --audit_dir and others.
#ifndef WARPLINE_AUDIT_AUDIT_FLAGS_H_
#define WARPLINE_AUDIT_AUDIT_FLAGS_H_

#include "absl/status/statusor.h"
#include "audit/audit_log.h"

namespace warpline::audit {

// What the flags say. INVALID_ARGUMENT, by the flag's name, for what is wrong with them. The folder
// is empty where no record is kept.
absl::StatusOr<AuditLogOptions> AuditLogOptionsFromFlags();

}  // namespace warpline::audit

#endif  // WARPLINE_AUDIT_AUDIT_FLAGS_H_
