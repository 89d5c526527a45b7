// The layers that take privileges away: one function each, for a process that has one thread.
#ifndef WARPLINE_SERVER_JAIL_PRIVILEGES_H_
#define WARPLINE_SERVER_JAIL_PRIVILEGES_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/jail/profiles.h"

namespace warpline::jail {

// The layer "limits". A limit that is lower already stays.
absl::Status LowerLimits(absl::Span<const Limit> limits);
// Of the same layer: when the host is short of memory, the process, and what it forks, goes before
// the server, which everybody needs.
absl::Status GoBeforeTheServer();

// The layer "identity", with a user of its own: becomes user and group `id`, with the further
// `groups`. The process still dies with its parent. PERMISSION_DENIED without the right to.
absl::Status BecomeUser(uid_t id, const std::vector<gid_t>& groups);

// The layer "identity", without one: enters a user namespace in which the process is who it was,
// and has rights over nothing outside. The other functions then work without root.
absl::Status EnterUserNamespace();

// Whether the process may enter namespaces as it is.
bool MayAdminister();
// The layer "namespaces": a network without interfaces, IPC, host name and mounts of its own.
absl::Status EnterNamespaces(bool keep_network);

// The layer "mounts", in a namespace of mounts of its own: makes all of them read-only but
// /proc and the folders of `writable`, and free of setuid. Devices, pipes and sockets can still be
// written to.
absl::Status MakeMountsReadOnly(const std::vector<std::string>& writable);

// Of the layer "capabilities", what has to come while the process still has them: nothing that it
// executes gets any.
absl::Status DropCapabilityBounds();
// The layer "capabilities": drops all.
absl::Status DropCapabilities();

// The layer "undumpable". Comes after the change of identity, which undoes it.
absl::Status MakeUndumpable();

}  // namespace warpline::jail

#endif  // WARPLINE_SERVER_JAIL_PRIVILEGES_H_
