// Holds what the driver says of the processes on one GPU against what dispatch knows of them.
//
// A worker of the isolated tier is its tenant's, and its page with dispatch is advice to it: one
// that was taken over launches without asking. The driver counts it all the same. Its account is
// coarse: percents of its last sampling period, a sixth of a second to a second, and only of
// processes that had some. So it is compared over windows, and only while others want compute; what
// a slice may be off by is wide, and a session ends only after several windows in a row:
//
//   - over a window the driver says more than was noted by `debit_above`, and more than the slice's
//     share: what is beyond is its debt, so that its next turns come later and others' sooner;
//   - more than was noted by `end_above`, and than its share by `above_share`, in `windows` windows
//     in a row: the session ends whose worker had most that it was not given.
//
// Whether a process has a tenant's kernels while it waits for its slice of time the driver may or
// may not count: where the percents of all come to more than 100, each is taken for its part of
// them.
//
// It is remembered for a while, by slice, that one of its sessions was ended: one more window is
// then enough, so that reconnecting is no way out.
#ifndef WARPLINE_SERVER_ACCOUNT_DRIVER_ACCOUNT_H_
#define WARPLINE_SERVER_ACCOUNT_DRIVER_ACCOUNT_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/dispatch/gpu_use.h"
#include "server/nvml/driver_samples.h"

namespace warpline::server {

struct AccountOptions {
  absl::Duration window = absl::Seconds(2);
  // In thousandths of the window.
  int64_t debit_above = 100;
  int64_t end_above = 250;
  int64_t above_share = 100;
  int windows = 5;
  // How long it is remembered that a slice had a session ended.
  absl::Duration memory = absl::Minutes(10);
  // The driver is taken not to know the server's processes once these have worked for so long and
  // it named none.
  absl::Duration silence = absl::Seconds(10);
};

// A slice that has used more than it was given in a window.
struct Overdraft {
  std::string slice;
  std::string tenant;
  uint64_t session = 0;  // Whose worker had most of it.
  pid_t pid = 0;
  int64_t stolen_ns = 0;
  // In thousandths of the window: by the driver, by dispatch, and as it was promised.
  int64_t used = 0;
  int64_t noted = 0;
  int64_t share = 0;
  int windows = 0;  // Of those in a row that are enough to end a session; 0 for none.
  bool ends = false;
};

// Thread-compatible.
class DriverAccount {
 public:
  explicit DriverAccount(const AccountOptions& options) : options_(options) {}

  // What the driver has said since the last call, and how dispatch has it now. `now_ns` is of a
  // steady clock. Says who used more than it was given whenever a window is over.
  std::vector<Overdraft> Observe(int64_t now_ns, const std::vector<nvml::ProcessUse>& samples,
                                 const dispatch::GpuUse& use);
  // The newest sample's time, since which new ones are wanted.
  int64_t since_us() const { return since_us_; }
  // Whether the server's processes have worked for long and the driver has named none of them, such
  // as where it has other numbers for them than a container's.
  bool silent() const { return !named_ && worked_ns_ > absl::ToInt64Nanoseconds(options_.silence); }

 private:
  // A worker, in this window.
  struct Process {
    uint64_t session = 0;
    std::string slice;
    int64_t since_us = 0;
    int64_t used_us = 0;  // As the driver says.
    int64_t busy_ns = 0;  // WorkerUse::busy_ns at the beginning.
    int64_t noted_ns = 0;
  };
  // A slice, in this window; one that comes back goes on.
  struct Slice {
    std::string tenant;
    uint32_t share = 0;
    uint32_t vgpu = 0;  // Of which the two sums are known.
    int64_t noted_sum_ns = 0;
    int64_t others_sum_ns = 0;
    int64_t noted_ns = 0;
    int64_t others_wanted_ns = 0;
  };
  struct Record {
    int windows = 0;        // In a row.
    int64_t judged_ns = 0;  // The last time.
    int64_t ended_ns = 0;   // The last time that a session was ended; 0 for never.
  };
  static constexpr size_t kMostRecords = 1024;

  void NoteSlice(const dispatch::SliceUse& use);
  void NoteWorker(const dispatch::WorkerUse& worker, const std::string& slice);
  void NoteSamples(const std::vector<nvml::ProcessUse>& samples);
  void BeginWindow(int64_t now_ns, const dispatch::GpuUse& use);
  std::vector<Overdraft> Judge(int64_t now_ns, const dispatch::GpuUse& use);
  void JudgeSlice(int64_t now_ns, int64_t looked_ns, const std::string& name, const Slice& slice,
                  std::vector<Overdraft>* found);
  // What the driver says of the slice's workers, and which of them is the first to end.
  int64_t UsedBy(const std::string& slice, Overdraft* over) const;
  void Forget(int64_t now_ns);

  const AccountOptions options_;
  bool began_ = false;
  bool named_ = false;
  int64_t worked_ns_ = 0;  // Of all slices, while none was named.
  int64_t since_us_ = 0;
  int64_t window_ns_ = 0;   // When it began.
  int64_t looked_ns_ = 0;   // GpuUse::looked_ns then.
  int64_t covered_us_ = 0;  // What the samples of this window are about, together.
  std::map<pid_t, Process> processes_;
  std::map<std::string, Slice> slices_;
  std::map<std::string, Record> records_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_ACCOUNT_DRIVER_ACCOUNT_H_
