// A session's registration with the dispatch of its devices: its terms, its page of shared memory,
// and its use.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_DISPATCH_REGISTRATION_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_DISPATCH_REGISTRATION_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/gpu_server/dispatch/kill_verdict.h"
#include "server/gpu_server/dispatch/slot_reader.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::dispatch {

class Dispatcher;
class GpuDispatch;

// The promises made to a session, and the sessions with which it shares them.
struct DispatchTerms {
  // The ordinals of its devices, in the order of the session.
  std::vector<int> gpus;
  std::string tenant = {};  // The tenant's name, by which policies know the session.
  // Sessions of the same slice share its turns, as far as they run together. A slice has the
  // sessions of one lease, or of one peer without a lease.
  std::string slice = {};
  // Sessions of the same ledger share its weight and its debt. There is one ledger for compute
  // and one for copies; an empty name stands for the slice's own.
  std::string compute_ledger = {};
  std::string copy_ledger = {};
  uint32_t compute_weight = 1;
  uint32_t copy_weight = 1;
  int32_t priority = 0;
  // The nice value of the client's process, from 0 to kMostNiceness (common/niceness.h). It lowers
  // the weight of the ledgers, and where the session stands among others of its slice.
  uint32_t niceness = 0;
  // The reservation: `budget_ns` of each engine in each period. Both are 0 for none.
  int64_t period_ns = 0;
  int64_t budget_ns = 0;
  // True if the session runs in the hardware context that all such sessions of a device share.
  bool shares_context = false;
  // Sessions of the same group run on a device at once, whatever their slices, because the driver
  // runs their processes together. Empty for no group.
  std::string group = {};
  uint64_t session = 0;  // The session's number.
  // Called with the new pace of the session's kernels (PacedSlice::nap_us) if the session shares a
  // context and has a worker. The call comes on the dispatcher's thread, possibly after the
  // registration is gone, and must not block. May be null.
  std::function<void(uint32_t nap_us)> on_pace = {};
  // True if the session may be ended for more urgent work. To end it, `on_kill` is called once, on
  // the same thread and under the same rules as `on_pace`. Its work in flight is ignored from then
  // on.
  bool best_effort = false;
  std::function<void(const KillOrder& order)> on_kill = {};
};

// A session's use of one kind of engine, summed over its devices.
struct EngineUsage {
  // While the engine is given in turns, the server measures this. At other times the worker reports
  // it, and no more counts than the time that has passed.
  int64_t busy_ns = 0;
  uint64_t commands = 0;
  uint64_t bytes = 0;  // Bytes copied.
};
using DispatchUsage = std::array<EngineUsage, kEngines>;

// Thread-safe. Destroying the registration leaves the dispatch; the dispatcher must outlive it.
class DispatchRegistration {
 public:
  ~DispatchRegistration();
  DispatchRegistration(const DispatchRegistration&) = delete;
  DispatchRegistration& operator=(const DispatchRegistration&) = delete;

  // The descriptor of the page, for the session's worker. It belongs to the registration.
  int fd() const { return page_->fd(); }
  // Says that `pid` is the session's worker from now on. If `server` is not 0, that process does
  // the work of the whole group, and the driver may attribute the worker's device time to it.
  void SetWorker(pid_t pid, pid_t server = 0);
  // Says that the worker has ended. Another one will get the page.
  void ForgetWorker();
  DispatchUsage usage();

 private:
  friend class Dispatcher;
  friend class GpuDispatch;

  DispatchRegistration(Dispatcher* dispatcher, DispatchTerms terms,
                       std::unique_ptr<DispatchPage> page)
      : dispatcher_(dispatcher), terms_(std::move(terms)), page_(std::move(page)) {}

  Dispatcher* const dispatcher_;
  const DispatchTerms terms_;
  const std::unique_ptr<DispatchPage> page_;
  // The dispatcher's lock guards what follows.
  std::array<std::array<SlotReader, kEngines>, kMaxSessionDevices> readers_;
  DispatchUsage usage_;
  // Compute time that the session took without having been given it; not part of `usage_`.
  int64_t stolen_ns_ = 0;
  pid_t worker_ = 0;     // 0 for none.
  pid_t server_ = 0;     // The group's server process; 0 for none.
  uint32_t nap_us_ = 0;  // The pace that the worker was told last.
  bool killed_ = false;  // The session was told to end.
  int64_t worker_since_us_ = 0;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_DISPATCH_REGISTRATION_H_
