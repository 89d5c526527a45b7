// The kinds of processes that a server consists of, as a table.
#ifndef WARPLINE_SERVER_HOSTLINK_PROCESS_PROCESS_ROLES_H_
#define WARPLINE_SERVER_HOSTLINK_PROCESS_PROCESS_ROLES_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline {

enum class ProcessRole { kServer, kSupervisor, kWorker, kKeeper, kRelay, kCompiler, kMps };
inline constexpr size_t kProcessRoles = 7;

struct ProcessRoleSpec {
  ProcessRole role;
  const char* name;     // In messages.
  const char* program;  // Lies beside the server's.
  const char* folder;   // Its package under server/, where Bazel builds it.
  // The only one that starts such a process; itself for the server, which somebody else starts.
  ProcessRole started_by;
};

const ProcessRoleSpec& SpecOf(ProcessRole role);
std::optional<ProcessRole> RoleNamed(absl::string_view name);
// The program of this installation. NOT_FOUND names the places.
absl::StatusOr<std::string> FindProgram(ProcessRole role);

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_PROCESS_PROCESS_ROLES_H_
