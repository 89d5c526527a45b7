#include "server/hostlink/process/process_roles.h"

#include <array>

#include "common/sibling_program.h"

namespace warpline {
namespace {

// In the order of ProcessRole. Every process but the server has a packet socket to who asked for it
// as descriptor 3, the server's log as 2, and no other descriptor.
constexpr std::array<ProcessRoleSpec, kProcessRoles> kRoles = {{
    // With it everything ends.
    {ProcessRole::kServer, "server", "warpline-server", "", ProcessRole::kServer},
    // With it the workers and keepers end; the server starts another, and goes on as when each of
    // them had died.
    {ProcessRole::kSupervisor, "supervisor", "warpline-supervisor", "supervisor",
     ProcessRole::kServer},
    // Another takes over its session, or the session has failed (server/gpu_server/continuity/).
    {ProcessRole::kWorker, "worker", "warpline-worker", "worker", ProcessRole::kSupervisor},
    // It is started again. What it made stays (server/gpu_server/memory/device_memory.h).
    {ProcessRole::kKeeper, "keeper", "warpline-keeper", "keeper", ProcessRole::kSupervisor},
    // Its session goes on over the connection that it came from, and may ask for another relay.
    {ProcessRole::kRelay, "relay", "warpline-relay", "relay", ProcessRole::kSupervisor},
    // Modules that it was compiling are refused; the tenant's next session has another.
    {ProcessRole::kCompiler, "compiler", "warpline-compiler", "compiler", ProcessRole::kSupervisor},
    // Its daemon ends with it. Workers of its group are replaced, or their sessions fail; the next
    // one has another.
    {ProcessRole::kMps, "mps", "warpline-mps", "mps", ProcessRole::kSupervisor},
}};

}  // namespace

const ProcessRoleSpec& SpecOf(ProcessRole role) { return kRoles[static_cast<size_t>(role)]; }

std::optional<ProcessRole> RoleNamed(absl::string_view name) {
  for (const ProcessRoleSpec& spec : kRoles) {
    if (name == spec.name) return spec.role;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> FindProgram(ProcessRole role) {
  return FindSibling(SpecOf(role).program, SpecOf(role).folder);
}

}  // namespace warpline
