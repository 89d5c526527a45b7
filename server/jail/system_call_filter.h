// The layer "system_calls": a list of those that a process may make (seccomp(2)).
#ifndef WARPLINE_SERVER_JAIL_SYSTEM_CALL_FILTER_H_
#define WARPLINE_SERVER_JAIL_SYSTEM_CALL_FILTER_H_

#include "absl/status/status.h"
#include "server/jail/profiles.h"

namespace warpline::jail {

// From now on every thread of this process makes only the system calls of the profile; others fail
// with EPERM, or, where a C library would otherwise not fall back to an older one, with ENOSYS.
// INTERNAL when the kernel refuses.
absl::Status FilterSystemCalls(const Profile& profile);

}  // namespace warpline::jail

#endif  // WARPLINE_SERVER_JAIL_SYSTEM_CALL_FILTER_H_
