// Control groups (cgroup v2) for workers and keepers: how much memory, processor time and how many
// tasks each may have.
//
// A server manages groups where it was given a subtree (systemd's Delegate=yes, or a path of the
// operator's). It then is in the group "server" there itself, since a group with groups below it
// holds no processes.
#ifndef WARPLINE_SERVER_JAIL_CGROUPS_H_
#define WARPLINE_SERVER_JAIL_CGROUPS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warpline::jail {

struct GroupLimits {
  uint64_t memory_bytes = 0;  // Of the host's; 0 for no limit.
  uint64_t tasks = 0;         // Threads of all its processes; 0 for no limit.
  int cpu_weight = 100;       // 1 to 10000, of a processor that several want.
  // Whether all its processes end when memory is short, rather than the largest.
  bool ends_together = true;
};

// One group. It goes when the object does, by when its processes must have been reaped.
class Cgroup {
 public:
  explicit Cgroup(std::string folder) : folder_(std::move(folder)) {}
  ~Cgroup();
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;

  absl::Status Add(pid_t process);

 private:
  const std::string folder_;
};

// Thread-safe.
class Cgroups {
 public:
  // Takes over the subtree at `folder`, a folder of a cgroup v2 file system that may yet have to be
  // made. FAILED_PRECONDITION when it has no controller that can be given on.
  static absl::StatusOr<std::unique_ptr<Cgroups>> Manage(const std::string& folder);

  // Takes over the group that this process is in, by itself and with the right to; the process
  // moves down into the group "server". FAILED_PRECONDITION says what is in the way. A process
  // `companion` may be in the group, too, and moves along; 0 for none. `root` is where /proc and
  // /sys lie, for tests.
  static absl::StatusOr<std::unique_ptr<Cgroups>> ManageOwn(pid_t companion,
                                                            const std::string& root = "");

  // Makes a group. Limits whose controller is not there are left out.
  absl::StatusOr<std::unique_ptr<Cgroup>> NewGroup(const std::string& name,
                                                   const GroupLimits& limits) const;

  const std::string& folder() const { return folder_; }
  // Such as "memory cpu".
  const std::string& controllers() const { return controllers_; }

 private:
  Cgroups(std::string folder, std::string controllers)
      : folder_(std::move(folder)), controllers_(std::move(controllers)) {}

  const std::string folder_;
  const std::string controllers_;
};

}  // namespace warpline::jail

#endif  // WARPLINE_SERVER_JAIL_CGROUPS_H_
