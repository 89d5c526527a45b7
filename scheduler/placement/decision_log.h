// Allocator decisions in files: what has happened and what was decided, so that it can be decided
// again.
//
// A folder has files "decisions.NUMBER", of which the oldest are removed. Each begins with the
// options and the state of then, so every file can be replayed alone. A record is its length, as a
// varint, and a Record (placement.proto).
#ifndef WARPLINE_SCHEDULER_PLACEMENT_DECISION_LOG_H_
#define WARPLINE_SCHEDULER_PLACEMENT_DECISION_LOG_H_

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/placement/allocator.h"

namespace warpline::placement {

struct DecisionLogOptions {
  std::string folder;  // Made when it is missing; its parent must be there.
  uint64_t file_bytes = 8u << 20;
  // At least 2, so that there is always one that is whole.
  uint32_t files = 4;
};

// An Allocator whose decisions are recorded. Thread-compatible. Where a file cannot be written, the
// decisions go on without: recording starts again with the next file, after as many bytes.
class RecordedAllocator {
 public:
  // Without a log when `log.folder` is empty. UNAVAILABLE when the folder cannot be used.
  static absl::StatusOr<std::unique_ptr<RecordedAllocator>> Create(AllocatorOptions options,
                                                                   DecisionLogOptions log);

  // Allocator::Apply().
  Decision Apply(const Event& event);
  const Allocator& allocator() const { return allocator_; }
  // What is wrong with the log; OK when nothing is.
  const absl::Status& log_status() const { return status_; }

 private:
  RecordedAllocator(AllocatorOptions options, DecisionLogOptions log);
  void Begin(int64_t now_ns);
  void Write(const warpline_placement::Record& record);

  const AllocatorOptions options_;
  const DecisionLogOptions log_;
  Allocator allocator_;
  std::ofstream file_;
  uint64_t number_ = 0;
  uint64_t bytes_ = 0;
  absl::Status status_;
};

}  // namespace warpline::placement

#endif  // WARPLINE_SCHEDULER_PLACEMENT_DECISION_LOG_H_
