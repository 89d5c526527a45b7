// Holds what the driver says of the processes on one GPU against what dispatch knows of them.
//
// A worker of the isolated tier is its tenant's, and its page with dispatch is advice to it: one
// that was taken over launches without asking. The driver counts it all the same, but by samples:
// five times a second it looks which process is on the device, and says of that one that it had all
// of the last fifth (seen on an H100 with driver 580, docs/dispatch-on-a-gpu.md). So what it says
// is a draw, and a second of draws proves nothing: of a slice that has a quarter, one reading in
// four says 99 %. Draws are added up until they cannot be chance (DriftEvidence):
//
//   - each reading while others want compute is a draw of whether the slice was on the device,
//     which is expected as often as dispatch has noted of it;
//   - from `debit_evidence` on, and while it has more than its share, what it had beyond what was
//   noted
//     is its debt, which it pays by and by, so that its next turns come later and others' sooner;
//   - from `end_evidence` on, when it has more than was noted by `end_above` and than its share by
//     `above_share`, the session ends whose worker had most that it was not given.
//
// Draws that follow each other are alike, since turns come at intervals as the driver's looks do:
// `dependence` of them count as one.
//
// A driver may count a process that waits for its slice of time, too: where the percents of all
// come to more than 100, each is taken for its part of them.
//
// It is remembered for a while of a tenant, or of a peer without a lease, that a session was ended:
// half of the evidence is then there from the start, so that another lease is no way out.
#ifndef WARPLINE_SERVER_GPU_SERVER_USAGE_CHECK_DRIVER_USAGE_CHECK_H_
#define WARPLINE_SERVER_GPU_SERVER_USAGE_CHECK_DRIVER_USAGE_CHECK_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/gpu_server/dispatch/gpu_use.h"
#include "server/gpu_server/nvml/driver_samples.h"
#include "server/gpu_server/usage_check/drift_evidence.h"

namespace warpline::server {

struct UsageCheckOptions {
  // Of the test, and in what it counts: once in some 45 hours in which two tenants want the device
  // an honest slice is charged by chance, and once in two years its session ends.
  double excess = 0.2;
  int dependence = 4;
  double debit_evidence = 12;
  double end_evidence = 18;
  // In thousandths of the time.
  int64_t end_above = 200;
  int64_t above_share = 100;
  // How a debt is paid: so much at once at most, of which dispatch takes no more than a second, and
  // of a debt no more than so much in all.
  absl::Duration debit = absl::Milliseconds(500);
  absl::Duration debit_every = absl::Seconds(1);
  absl::Duration most_debt = absl::Seconds(30);
  // A reading after so long without any is about nobody knows what.
  absl::Duration longest_reading = absl::Seconds(2);
  // How long it is remembered that a tenant had a session ended.
  absl::Duration memory = absl::Minutes(10);
  // The driver is taken not to know the server's processes once these have worked for so long and
  // it named none.
  absl::Duration silence = absl::Seconds(10);
};

// A slice that has used more than it was given.
struct Overdraft {
  std::string slice;
  std::string tenant;
  uint64_t session = 0;  // Whose worker had most of it.
  pid_t pid = 0;
  int64_t stolen_ns = 0;  // What it pays of that now.
  // In thousandths of the time since it began: by the driver, by dispatch, and as it was promised.
  int64_t used = 0;
  int64_t noted = 0;
  int64_t share = 0;
  absl::Duration lasted;  // For how long others wanted the device meanwhile.
  bool ends = false;
};

// Thread-compatible.
class DriverUsageCheck {
 public:
  explicit DriverUsageCheck(const UsageCheckOptions& options) : options_(options) {}

  // What the driver has said since the last call, and how dispatch has it now. `now_ns` is of a
  // steady clock. Says who has used more than it was given.
  std::vector<Overdraft> Observe(int64_t now_ns, const std::vector<nvml::ProcessUse>& samples,
                                 const dispatch::GpuUse& use);
  // The newest sample's time, since which new ones are wanted.
  int64_t since_us() const { return since_us_; }
  // Whether the server's processes have worked for long and the driver has named none of them, such
  // as where it has other numbers for them than a container's.
  bool silent() const { return !named_ && worked_ns_ > absl::ToInt64Nanoseconds(options_.silence); }

 private:
  struct Process {
    uint64_t session = 0;
    std::string slice;
    int64_t since_us = 0;
    int64_t busy_ns = 0;  // WorkerUse::busy_ns at the last reading.
    int64_t beyond_ns =
        0;  // What it had beside what was noted, since its slice came under suspicion.
  };
  // What is known of a slice. One that comes back goes on, so this is by its name.
  struct Slice {
    explicit Slice(double excess) : drift(excess) {}

    std::string tenant;
    uint32_t share = 0;
    uint32_t vgpu = 0;  // Of which the sums are known.
    // SliceUse's, at the last reading.
    int64_t noted_sum_ns = 0;
    int64_t others_sum_ns = 0;
    int64_t worked_sum_ns = 0;  // SliceUse::noted_ns at the last call.
    double noted_before = 0;    // The part that was noted in the reading before.
    DriftEvidence drift;
    // While the evidence is above its least: what was drawn, and what of it is not charged yet.
    int64_t lasted_ns = 0;
    int64_t used_ns = 0;
    int64_t noted_ns = 0;
    int64_t owed_ns = 0;
    int64_t debt_ns = 0;     // What is proven, and not paid yet.
    int64_t seen_ns = 0;     // When it was there the last time.
    int64_t debited_ns = 0;  // When it paid; 0 for never.
  };
  // What a reading says, in parts of the time that it is about.
  struct Reading {
    int64_t span_ns = 0;    // 0 where it is not known what was going on.
    int64_t looked_ns = 0;  // For how much of it the dispatcher has looked.
    std::map<pid_t, double> parts;
  };
  static constexpr size_t kMostSlices = 1024;

  // Whose sessions are remembered.
  static const std::string& Payer(const std::string& name, const Slice& slice) {
    return slice.tenant.empty() ? name : slice.tenant;
  }

  void Meet(int64_t now_ns, const dispatch::GpuUse& use);
  void MeetWorker(const dispatch::WorkerUse& worker, const std::string& slice);
  Reading Read(int64_t now_ns, const std::vector<nvml::ProcessUse>& samples,
               const dispatch::GpuUse& use);
  // Draws for a slice that is there, and says whether it is over its due.
  void Draw(int64_t now_ns, const Reading& reading, const dispatch::SliceUse& use,
            std::vector<Overdraft>* found);
  // Whether the session is to end whose worker had most.
  bool Judge(Slice* slice);
  void Debit(int64_t now_ns, const std::string& name, bool ends, Slice* slice,
             std::vector<Overdraft>* found);
  void BeginAnew(const std::string& name, Slice* slice);
  void Forget(int64_t now_ns, const dispatch::GpuUse& use);

  const UsageCheckOptions options_;
  bool named_ = false;
  int64_t worked_ns_ = 0;  // Of all slices, while none was named.
  int64_t since_us_ = 0;   // Of the newest sample.
  int64_t read_ns_ = 0;    // When the last reading was; 0 before the first.
  int64_t looked_ns_ = 0;  // GpuUse::looked_ns then.
  std::map<pid_t, Process> processes_;
  std::map<std::string, Slice> slices_;
  std::map<std::string, int64_t> ended_ns_;  // When a session of a payer was ended the last time.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_USAGE_CHECK_DRIVER_USAGE_CHECK_H_
