// Whose work did not end in a worker that others share, and until when they get no sessions there.
//
//   HangBook hangs(absl::Minutes(1));
//   hangs.OnHang(payer, absl::Now());
//   if (absl::Status may = hangs.Check(payer, absl::Now()); !may.ok()) return may;
//
// Work that does not end takes the process with it, and time from the sessions that are moved. So
// who caused that waits before the next time: `first` after the first hang, and twice as long after
// each one that follows, up to a day. A payer that has had none for a day since its wait is as at
// the beginning.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_HANG_BOOK_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_HANG_BOOK_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

class HangBook {
 public:
  static constexpr absl::Duration kMostPause = absl::Hours(24);
  // So many payers are remembered; those who may come again soonest are forgotten first.
  static constexpr size_t kMostPayers = 4096;

  // Nobody waits if `first` is zero.
  explicit HangBook(absl::Duration first) : first_(first) {}

  // Work of a session that `payer` pays for did not end. The times are those of the
  // wall.
  void OnHang(const std::string& payer, absl::Time now) RUNS_ON(control_loop);
  // PERMISSION_DENIED while it waits, with until when.
  absl::Status Check(const std::string& payer, absl::Time now) const RUNS_ON(control_loop);

 private:
  struct Record {
    absl::Duration pause;
    absl::Time until;
  };

  const absl::Duration first_;
  std::map<std::string, Record> records_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_HANG_BOOK_H_
