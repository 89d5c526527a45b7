#include "scheduler/placement/replay.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "google/protobuf/util/delimited_message_util.h"
#include "scheduler/placement/allocator.h"

namespace warpline::placement {
namespace {

using warpline_placement::Record;

AllocatorOptions OptionsOf(const warpline_placement::Options& from) {
  AllocatorOptions options;
  options.order = from.pack() ? Order::kPack : Order::kSpread;
  options.max_waiting = from.max_waiting();
  options.max_waiting_of_tenant = from.max_waiting_of_tenant();
  options.max_reservations = from.max_reservations();
  options.max_reserved_percent = from.max_reserved_percent();
  options.patience = absl::Nanoseconds(from.patience_ns());
  options.silence = absl::Nanoseconds(from.silence_ns());
  options.preemption = from.preemption();
  options.notice = absl::Nanoseconds(from.notice_ns());
  options.epoch = absl::Nanoseconds(from.epoch_ns());
  return options;
}

}  // namespace

absl::StatusOr<Replay> ReplayDecisions(std::istream* file) {
  google::protobuf::io::IstreamInputStream stream(file);
  Replay replay;
  std::unique_ptr<Allocator> allocator;
  while (true) {
    Record record;
    bool at_end = false;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(&record, &stream, &at_end)) {
      if (allocator == nullptr) return absl::DataLossError("this is no record of decisions");
      replay.cut_off = !at_end;
      return replay;
    }
    if (record.has_options()) {
      allocator = std::make_unique<Allocator>(OptionsOf(record.options()));
      continue;
    }
    if (allocator == nullptr) return absl::DataLossError("this is no record of decisions");
    if (record.has_state()) (void)allocator->Apply(record.state());
    if (!record.has_event()) continue;
    const Decision decision = allocator->Apply(record.event());
    ++replay.decided;
    if (decision.SerializeAsString() == record.decision().SerializeAsString()) continue;
    replay.different = replay.decided;
    replay.difference =
        absl::StrCat("event:\n", record.event().DebugString(), "recorded:\n",
                     record.decision().DebugString(), "decided now:\n", decision.DebugString());
    return replay;
  }
}

}  // namespace warpline::placement
