// The layers of the jail around a worker or a keeper, as a table: what each needs of the system,
// and what it closes to a process that a tenant has taken over.
//
// A layer takes something away from the process for good. Each stands for itself, so that one that
// a host does not have leaves the others as they are; docs/security.md says what remains open then.
#ifndef WARPLINE_SERVER_JAIL_LAYERS_H_
#define WARPLINE_SERVER_JAIL_LAYERS_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/enum_set.h"

namespace warpline::jail {

enum class Layer : uint32_t {
  kLimits = 1u << 0,        // Resource limits (setrlimit(2)).
  kIdentity = 1u << 1,      // A user of its own, or else a user namespace.
  kNamespaces = 1u << 2,    // Its own network, System V IPC, host name and mounts.
  kMounts = 1u << 3,        // Every mounted file system but /proc is read-only.
  kCapabilities = 1u << 4,  // None, and none to be had.
  kUndumpable = 1u << 5,    // Others of its user cannot look into it by /proc or ptrace(2).
  kFiles = 1u << 6,         // Landlock: the files of its profile, no TCP, no signals to others.
  kSystemCalls = 1u << 7,   // A list of system calls, for all threads.
  kCgroup = 1u << 8,        // A control group, which the server puts it into.
};
using LayerSet = EnumSet<Layer>;

struct LayerSpec {
  Layer layer;
  const char* name;    // In flags, logs and tests.
  const char* needs;   // For the log, when the layer is missing.
  const char* closes;  // For people.
  // Whether every system that Warpline runs on has it, so that a process never goes on without it.
  bool always;
};

// In the order in which a process closes them.
absl::Span<const LayerSpec> AllLayers();
const LayerSpec& SpecOf(Layer layer);
std::optional<Layer> LayerNamed(absl::string_view name);

}  // namespace warpline::jail

#endif  // WARPLINE_SERVER_JAIL_LAYERS_H_
