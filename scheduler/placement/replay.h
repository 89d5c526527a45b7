// Decides recorded events again.
#ifndef WARPLINE_SCHEDULER_PLACEMENT_REPLAY_H_
#define WARPLINE_SCHEDULER_PLACEMENT_REPLAY_H_

#include <cstdint>
#include <istream>
#include <string>

#include "absl/status/statusor.h"

namespace warpline::placement {

struct Replay {
  uint64_t decided = 0;  // Events that were decided again.
  // The first that was decided differently, counted from 1; 0 when there is none, and then what was
  // recorded and what is decided now, for people.
  uint64_t different = 0;
  std::string difference;
  // The last record is not whole, as when its writer was killed.
  bool cut_off = false;
};

// Reads a file of decision_log.h. DATA_LOSS for what is no such file. It may come from anywhere.
absl::StatusOr<Replay> ReplayDecisions(std::istream* file);

}  // namespace warpline::placement

#endif  // WARPLINE_SCHEDULER_PLACEMENT_REPLAY_H_
