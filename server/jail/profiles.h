// What each kind of jailed process keeps: its layers, files, system calls and limits, as tables.
#ifndef WARPLINE_SERVER_JAIL_PROFILES_H_
#define WARPLINE_SERVER_JAIL_PROFILES_H_

#include <sys/resource.h>

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/jail/layers.h"

namespace warpline::jail {

enum class FileAccess {
  kRead,       // Reading files, and what lies below a folder.
  kReadWrite,  // Reading, writing and ioctl(2), for devices; creating nothing.
  kExecute,    // Reading, and executing what lies below a folder.
  kMake,       // Reading and writing, and making and removing files, pipes and sockets.
};

struct FileRule {
  const char* path;  // One that is not there is passed over.
  FileAccess access;
};

struct Limit {
  int resource;
  const char* name;
  rlim_t most;
};

// The rule for the arguments of a system call.
enum class CallRule {
  kAny,
  kThreadOnly,       // clone(2): with CLONE_THREAD.
  kForkOnly,         // clone(2): as fork(3) does it, without a namespace.
  kOwnProcess,       // The first argument is the process's own number.
  kOwnLimitsOnly,    // prlimit64(2): of the calling process, reading.
  kOwnLimits,        // prlimit64(2): of the calling process.
  kHarmlessOptions,  // prctl(2): names of threads and of memory, timers' slack.
  kDriverRequests,   // ioctl(2): the profile's requests.
  kSealsOnly,        // fcntl(2): asking for seals.
  kInternetOnly,     // socket(2): of the Internet's families.
};

// A request of ioctl(2): those whose bits of `mask` are `value`.
struct RequestRule {
  uint32_t mask;
  uint32_t value;
};

struct SystemCallRule {
  int number;
  CallRule rule = CallRule::kAny;
};

struct Profile {
  const char* name;
  LayerSet layers;
  absl::Span<const FileRule> files;
  absl::Span<const SystemCallRule> system_calls;
  absl::Span<const RequestRule> requests;  // In order of their masks.
  absl::Span<const Limit> limits;
  // Keeps the host's network, and listens at the plan's ports. It connects to nobody.
  bool listens = false;
  // Forked by a process that is in a jail already, from which it has all but a few layers. It opens
  // no file at all, whatever `files` says.
  bool nested = false;
};

// Null when there is none.
const Profile* ProfileNamed(absl::string_view name);
// The names of the profiles of today.
inline constexpr char kWorkerProfile[] = "worker";
inline constexpr char kPeersProfile[] = "worker_with_peers";    // A worker of several devices.
inline constexpr char kMpsWorkerProfile[] = "worker_with_mps";  // A worker of an MPS group.
inline constexpr char kMpsProfile[] = "mps";  // NVIDIA's MPS daemon, and what keeps it.
inline constexpr char kKeeperProfile[] = "keeper";
inline constexpr char kRelayProfile[] = "relay";
inline constexpr char kRdmaRelayProfile[] = "relay_with_rdma";  // With the devices of RDMA.
inline constexpr char kCompilerProfile[] = "compiler";
inline constexpr char kStageProfile[] = "compiler_stage";  // What a compiler forks.

}  // namespace warpline::jail

#endif  // WARPLINE_SERVER_JAIL_PROFILES_H_
