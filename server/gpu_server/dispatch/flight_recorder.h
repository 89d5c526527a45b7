// Records the latest turns, waits and work on a GPU's engines, with reasons, in a ring. It shows
// afterwards why a launch waited.
//
//   FlightRecorder recorder;
//   recorder.NameSlice(3, "tenant a");
//   recorder.Add({.kind = TraceKind::kTurn, .slice = 3, ...});
//   TracePart part = recorder.After(0, 1000);   // then After(part.next, 1000), ...
//
// Spans are added when they end. Times are nanoseconds of the dispatcher's clock.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_FLIGHT_RECORDER_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_FLIGHT_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace warpline::dispatch {

enum class TraceKind : uint8_t {
  kTurn,   // The slice had the engine to itself.
  kWait,   // Some executor of the slice had a command that it might not issue.
  kWork,   // The slice had work in flight while others had sessions on the device.
  kLimit,  // The slice might issue, but with only a little in flight.
  kKill,   // Work of the slice was in the way of `other`, until the policy had it ended.
  kMove,   // Memory of a session of the slice was moved to the host for one of `other`.
};

// Why a turn ended, or why a slice waited.
enum class TraceReason : uint8_t {
  kNone,
  kUsedUp,         // A turn was over, and another slice goes first.
  kIdle,           // Nothing was in flight any more.
  kNotCome,        // Nothing was ever in flight.
  kYielded,        // The policy wants another one to go on at once.
  kAlone,          // No other slice has wanted the engine for a while: it is open.
  kLeft,           // The slice has no sessions any more.
  kTurnOfAnother,  // It waited for the turn of `other`.
  kDraining,       // It waited for work of `other` that was in flight.
  kHeld,           // The policy made it wait.
  kExpected,       // It was limited for `other`, which is more urgent and likely to come.
  kKilled,         // The policy had the work of the turn's slice ended.
  kInWay,          // It was killed: it is best effort, and `other` is more urgent.
  kKeptApart,      // It was to launch nothing beside `other`, which is more urgent.
  kAhead,          // Little memory was free, and its session had had no work for long.
};

struct TraceSpan {
  TraceKind kind = TraceKind::kTurn;
  TraceReason reason = TraceReason::kNone;
  uint8_t engine = 0;  // EngineIndex().
  uint32_t slice = 0;  // ContenderTerms::vgpu.
  // The slice for which it waited or was limited, or in whose way it was; 0 if that is not known.
  uint32_t other = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t charged_ns = 0;  // Turns only.
  uint64_t commands = 0;   // Work only: commands completed.
  uint64_t bytes = 0;      // Bytes copied by work, or moved.
  uint64_t session = 0;    // Moves only: the session whose memory was moved.
  uint64_t wanted_by = 0;  // Moves only: the session that wanted the room, or 0.
};

// A session's memory went to the host or came back.
struct MemoryMove {
  uint64_t session = 0;
  uint64_t wanted_by = 0;  // The session for which it went; 0 for none.
  bool out = false;
  TraceReason reason = TraceReason::kNone;  // kIdle, kUsedUp or kAhead, if it went.
  uint64_t bytes = 0;
  int64_t took_ns = 0;
};

struct TracePart {
  std::vector<TraceSpan> spans;
  std::map<uint32_t, std::string> slices;  // The names of the spans' slices, as far as known.
  uint64_t lost = 0;                       // Requested spans that the ring does not have any more.
  uint64_t next = 0;                       // The number for the next call of After().
};

// Thread-compatible: the dispatcher's lock guards it.
class FlightRecorder {
 public:
  // About as much as two busy slices leave behind in ten seconds, in 5 MiB.
  static constexpr size_t kSpans = 1 << 16;

  explicit FlightRecorder(size_t spans = kSpans) : most_(spans) {}

  void Add(const TraceSpan& span);
  void NameSlice(uint32_t slice, std::string name);
  // Returns at most `most` of the spans since the number `after`: a TracePart's `next`, or 0 for
  // the oldest. With 0 for `most` it returns no spans, and `next` is the number of the next one
  // added.
  TracePart After(uint64_t after, size_t most) const;
  // Returns the latest spans, for a log.
  std::vector<TraceSpan> Latest(size_t most) const;

 private:
  const size_t most_;
  std::vector<TraceSpan> ring_;  // Grows to `most_`; span number n is at n % most_.
  uint64_t added_ = 0;
  std::map<uint32_t, std::string> names_;  // The latest kNames.
};

// Return names for people: "turn", "not_come", ...
const char* NameOf(TraceKind kind);
const char* NameOf(TraceReason reason);

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_FLIGHT_RECORDER_H_
