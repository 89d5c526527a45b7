// A session's place in the dispatch of its devices.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_DISPATCH_SEAT_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_DISPATCH_SEAT_H_

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

// What a session was promised, and whom it shares that with.
struct SeatTerms {
  // The ordinals of its devices, in the order of the session.
  std::vector<int> gpus;
  std::string tenant = {};  // Whom policies know it by.
  // Sessions that name the same slice have its turns together, as far as they run together: those
  // of a lease, or of a peer without one.
  std::string slice = {};
  // Sessions that name the same account have its weight together, and what they owe: of compute,
  // and of copies. Empty for the slice.
  std::string compute_account = {};
  std::string copy_account = {};
  uint32_t compute_weight = 1;
  uint32_t copy_weight = 1;
  int32_t priority = 0;
  // So much time of each engine in each period; 0 and 0 for no reservation.
  int64_t period_ns = 0;
  int64_t budget_ns = 0;
  // The session runs in the context that all sessions with this on its device share.
  bool shares_context = false;
  // Sessions that name the same group, not empty, run at once on a device, whatever their slices:
  // the driver runs their processes together.
  std::string group = {};
  uint64_t session = 0;  // Its number, for whoever ends it.
  // Told how fast the session's kernels go from now on (PacedSlice::nap_us), where it shares a
  // context and has a worker. May come when the seat is gone, on the dispatcher's thread, and may
  // not wait. Null for nobody.
  std::function<void(uint32_t nap_us)> on_pace = {};
  // Whether the session may be ended for more urgent work. Then `on_kill` is told to end it, at
  // once and once, under the same conditions; what it has in flight counts for nothing from then
  // on.
  bool best_effort = false;
  std::function<void(const KillOrder& order)> on_kill = {};
};

// What a session has had of an engine of all its devices together.
struct EngineUsage {
  // As its worker says, but no longer than has passed; while the engine was given in turns, as the
  // server measured it.
  int64_t busy_ns = 0;
  uint64_t commands = 0;
  uint64_t bytes = 0;  // Of copies.
};
using SeatUsage = std::array<EngineUsage, kEngines>;

// Thread-safe. Leaves when it is destroyed, which must be before the dispatcher is.
class DispatchSeat {
 public:
  ~DispatchSeat();
  DispatchSeat(const DispatchSeat&) = delete;
  DispatchSeat& operator=(const DispatchSeat&) = delete;

  // Of the page for the session's worker. It belongs to the seat.
  int fd() const { return page_->fd(); }
  // The session's worker is this process from now on. What it does on the devices the driver may
  // count as done by `server` instead, if that is not 0, which does the work of the whole group.
  void SetWorker(pid_t pid, pid_t server = 0);
  // The worker has ended, and another one gets the page.
  void ForgetWorker();
  SeatUsage usage();

 private:
  friend class Dispatcher;
  friend class GpuDispatch;

  DispatchSeat(Dispatcher* dispatcher, SeatTerms terms, std::unique_ptr<DispatchPage> page)
      : dispatcher_(dispatcher), terms_(std::move(terms)), page_(std::move(page)) {}

  Dispatcher* const dispatcher_;
  const SeatTerms terms_;
  const std::unique_ptr<DispatchPage> page_;
  // Under the dispatcher's lock.
  std::array<std::array<SlotReader, kEngines>, kMaxSessionDevices> readers_;
  SeatUsage usage_;
  // Of compute, that it was not given; not in `usage_`.
  int64_t stolen_ns_ = 0;
  pid_t worker_ = 0;     // 0 for none.
  pid_t server_ = 0;     // Of its group; 0 for none.
  uint32_t nap_us_ = 0;  // What the worker was told.
  bool killed_ = false;  // The session was told to end.
  int64_t worker_since_us_ = 0;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_DISPATCH_SEAT_H_
