// The server's side of its processes' jails: says how each is to be closed, gives it a user id of
// its own, and tells the log what holds.
#ifndef WARPLINE_SERVER_JAIL_JAILER_H_
#define WARPLINE_SERVER_JAIL_JAILER_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/log/log_budget.h"
#include "common/mutex.h"
#include "proto/worker.pb.h"
#include "server/jail/cgroups.h"
#include "server/jail/uid_pool.h"

namespace warpline::jail {

struct JailerOptions {
  // A process with a layer missing is refused.
  bool strict = false;
  UidRange uids;
  // The cgroup to manage: a folder; "auto", the server's own where it is delegated; or "none".
  std::string cgroup = "none";
  // A process that may be in the server's own group, too, and moves with it; 0 for none.
  pid_t companion = 0;
  GroupLimits limits = {};
};

class Jailer;
class Cell;

// What a process's cell is to have.
struct CellRequest {
  std::string profile;
  std::vector<int> ordinals;
  // The process has the user of this one's, if not null, and keeps it for as long as it needs it.
  const Cell* same_user = nullptr;
  std::vector<warpline_internal::JailFolder> folders = {};
};

// What one process has of a jailer: its plan, and, for as long as the cell lives, its user id. To
// be kept until the process is gone. Thread-compatible.
class Cell {
 public:
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;

  const warpline_internal::JailPlan& plan() const { return plan_; }
  // Puts the process into its control group. An error only where the jail is strict.
  absl::Status Confine(pid_t process);
  // What the process says of its jail. It says so before a tenant reaches it.
  void OnClosed(warpline_internal::JailReport report) const;

 private:
  friend class Jailer;
  // The number of a user of the pool, which it goes back to when nobody has it any more; 0 for
  // none.
  using User = std::shared_ptr<const uint32_t>;

  Cell(Jailer* jailer, warpline_internal::JailPlan plan, User user)
      : jailer_(jailer), user_(std::move(user)), plan_(std::move(plan)) {}

  Jailer* const jailer_;
  const User user_;
  const warpline_internal::JailPlan plan_;
  std::unique_ptr<Cgroup> group_;  // Null where there is none, as `confined_` says.
  absl::Status confined_ = absl::UnavailableError("not yet");
};

// Thread-safe. Outlives its cells.
class Jailer {
 public:
  // Takes over the cgroup, so that the calling process may change its own: what it starts from then
  // on begins there.
  explicit Jailer(JailerOptions options);
  Jailer(const Jailer&) = delete;
  Jailer& operator=(const Jailer&) = delete;

  // Returns the folder of the groups that it manages; empty for none.
  std::string cgroup() const { return groups_.ok() ? (*groups_)->folder() : ""; }

  // Says where on the PCI bus a device of the server's is, once that is known; empty for one that
  // is no GPU. Before anything else is asked for with this device.
  void AddDevice(int ordinal, const std::string& pci_bus_id);

  // The same for a device that CUDA is to show alone, by its UUID, with the files that take it. A
  // MIG instance is used by processes without another device.
  struct Selected {
    std::string pci_bus_id;
    std::string uuid;
    bool is_instance = false;
    std::vector<std::string> files;
  };
  void SelectDevice(int ordinal, Selected device);

  // A cell for a process with this profile on the devices; for one that starts before AddDevice(),
  // on all that the driver has. RESOURCE_EXHAUSTED when no user id is left; FAILED_PRECONDITION for
  // a MIG instance and another device.
  absl::StatusOr<std::unique_ptr<Cell>> NewCell(const std::string& profile,
                                                const std::vector<int>& ordinals) {
    return NewCell({.profile = profile, .ordinals = ordinals});
  }
  absl::StatusOr<std::unique_ptr<Cell>> NewCell(const CellRequest& request);

 private:
  friend class Cell;
  // What is known of a device from AddDevice().
  struct Gpu {
    std::string pci_bus_id;
    std::vector<std::string> files;
    std::string uuid = {};  // Empty where CUDA shows it by itself.
    bool is_instance = false;
  };
  Cell::User NewUser();
  // Whether a process can use all of them.
  bool Together(const std::vector<int>& ordinals);
  // Names the devices in the plan, and returns their files.
  std::vector<std::string> AddDevices(const std::vector<int>& ordinals,
                                      warpline_internal::JailPlan* plan);
  // Logs the first report of a profile, and each that differs from the one before.
  void Tell(const std::string& profile, const warpline_internal::JailReport& report);

  const JailerOptions options_;
  UidPool uids_;
  // What Cgroups::Manage() returned.
  const absl::StatusOr<std::unique_ptr<Cgroups>> groups_;
  std::atomic<uint64_t> cells_{0};
  Mutex mu_;
  std::map<int, Gpu> gpus_ ABSL_GUARDED_BY(mu_);                  // By ordinal.
  std::map<std::string, std::string> told_ ABSL_GUARDED_BY(mu_);  // By profile.
  LogBudget log_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::jail

#endif  // WARPLINE_SERVER_JAIL_JAILER_H_
