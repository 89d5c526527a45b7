#include "server/gpu_server/dispatch/flight_recorder.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace warpline::dispatch {
namespace {

constexpr size_t kNames = 1024;

constexpr const char* kKinds[] = {"turn", "wait", "work", "limit", "kill", "move"};
constexpr const char* kReasons[] = {"none",     "used_up",    "idle",     "not_come",
                                    "yielded",  "alone",      "left",     "turn_of_another",
                                    "draining", "held",       "expected", "killed",
                                    "in_way",   "kept_apart", "ahead"};

}  // namespace

void FlightRecorder::Add(const TraceSpan& span) {
  if (ring_.size() < most_) {
    ring_.push_back(span);
  } else {
    ring_[added_ % most_] = span;
  }
  ++added_;
}

// Slices are numbered in the order in which they come.
void FlightRecorder::NameSlice(uint32_t slice, std::string name) {
  names_[slice] = std::move(name);
  if (names_.size() > kNames) names_.erase(names_.begin());
}

TracePart FlightRecorder::After(uint64_t after, size_t most) const {
  TracePart part;
  if (most == 0) {
    part.next = added_;
    return part;
  }
  const uint64_t oldest = added_ - ring_.size();
  uint64_t at = std::min(after, added_);
  if (at < oldest) {
    part.lost = oldest - at;
    at = oldest;
  }
  for (; at < added_ && part.spans.size() < most; ++at) {
    const TraceSpan& span = ring_[at % most_];
    for (const uint32_t slice : {span.slice, span.other}) {
      const auto name = names_.find(slice);
      if (name != names_.end()) part.slices.insert(*name);
    }
    part.spans.push_back(span);
  }
  part.next = at;
  return part;
}

std::vector<TraceSpan> FlightRecorder::Latest(size_t most) const {
  const uint64_t count = std::min<uint64_t>(most, ring_.size());
  return After(added_ - count, most).spans;
}

const char* NameOf(TraceKind kind) {
  const auto number = static_cast<size_t>(kind);
  return number < std::size(kKinds) ? kKinds[number] : "unknown";
}

const char* NameOf(TraceReason reason) {
  const auto number = static_cast<size_t>(reason);
  return number < std::size(kReasons) ? kReasons[number] : "unknown";
}

}  // namespace warpline::dispatch
