// What a record of the audit says, and the line that it is written as.
//
//   {"seq":12,"time":"2026-11-22T15:46:24.123456Z","event":"session.opened","tenant":"a",
//    "session":7,"peer":"ipv4:127.0.0.1:52044","program":"python","prev":"5c1f..."}
//
// (One line.) It is one flat JSON object whose values are strings and whole numbers. `prev` is the
// SHA-256 of the line before, without its newline, so that each line holds all lines before it in
// place. docs/audit.md lists the events and their fields. A record never has payloads, tokens or
// credentials.
#ifndef WARPLINE_AUDIT_RECORD_H_
#define WARPLINE_AUDIT_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace warpline::audit {

enum class Event : size_t {
  // Of the record itself.
  kBegan,
  kContinued,
  kRecovered,
  kBroken,
  kPruned,
  kLost,
  kLeftOut,
  // Of the server.
  kServerStarted,
  kServerStopped,
  kSessionOpened,
  kSessionClosed,
  kSessionRefused,
  kSessionFaulted,
  kSessionKilled,
  kModuleLoaded,
  kMemoryShared,
  kMemoryOpened,
  kLeaseRevoked,
  kWorkerDied,
  kWorkerKilled,
  kWorkerReplaced,
  kWorkerSuspended,
  kAdminReplace,
  kAdminPage,
  kAdminUpgrade,
  kAdminCheckpoint,
  kAdminPolicy,
  kPolicyFailed,
  kPolicyNote,
  // Of the scheduler.
  kSchedulerStarted,
  kSchedulerStopped,
  kAdminTenant,
  kAdminServer,
  kAdminRevoke,
  kAdminMove,
  kAdminSlice,
  kCredentialRefused,
  kEventCount,
};

// The budget that a record asks, so that nobody who is not trusted can fill the disk: see AuditLog.
enum class Bound : size_t {
  kNone,         // The program itself or its operator is the cause: no budget is asked.
  kWithOpening,  // None is asked either, since the session's opening has asked one.
  kSessions,
  kRevocations,
  kRefusals,
  kCredentials,
  kModules,
  kShares,
  kWorkers,
  kAdminRefusals,
  kPolicies,
  kPolicyNotes,
  kBoundCount,
};

struct EventInfo {
  Event event;
  const char* name;
  Bound bound;
};

// In the order of Event.
extern const EventInfo kEvents[static_cast<size_t>(Event::kEventCount)];
const EventInfo& InfoOf(Event event);

// A record before it has its place in the chain. Texts may come from a tenant; FormatLine() makes
// them harmless.
struct Record {
  Event event = Event::kBegan;
  // When it happened; the time at which it is added, unless it is set.
  absl::Time time = absl::InfinitePast();
  // Empty, or 0, for what the event does not concern.
  std::string tenant = {};
  std::string lease = {};
  uint64_t session = 0;
  std::string peer = {};
  // Further fields, by names of the program's.
  std::vector<std::pair<const char*, std::string>> texts = {};
  std::vector<std::pair<const char*, uint64_t>> numbers = {};
  // An operator asked for it and it was done. Such a record asks no budget (Bound::kNone), while
  // calls that anybody can make and that are refused ask the budget of their event.
  bool done = false;
};

// The budget that this record asks.
Bound BoundOf(const Record& record);

// What precedes the first line of a chain.
std::string NoHash();
// The hash of a line without its newline, in 64 hexadecimal digits.
std::string HashOf(absl::string_view line);

// A text of a record is cut to this many bytes, and a line is shorter than kMaxLine in any case.
inline constexpr size_t kMaxText = 256;
inline constexpr size_t kMaxLine = 32768;

// A time as lines have it; later ones compare as greater.
std::string FormatRecordTime(absl::Time time);

// The record's line, without newline. Control characters are escaped, and bytes that are not UTF-8
// are written as "\xff".
std::string FormatLine(const Record& record, uint64_t seq, absl::string_view prev);

// A line that was read back.
struct Line {
  uint64_t seq = 0;
  std::string time;
  std::string event;
  std::string prev;
  // Everything else in its order, and numbers as digits.
  std::vector<std::pair<std::string, std::string>> fields;

  // Empty where there is none.
  std::string Field(absl::string_view name) const;
};

// Reads a line, which may hold anything. INVALID_ARGUMENT when it is none that FormatLine() writes.
absl::StatusOr<Line> ParseLine(absl::string_view text);

// The latest line of a chain: its number and its hash. Who has it elsewhere can tell later that
// nothing up to there was changed or cut off.
struct Anchor {
  uint64_t seq = 0;
  std::string hash;
};

// "12:5c1f..."; empty for a chain without lines.
std::string FormatAnchor(const Anchor& anchor);
// Reads the same, or the hash alone, with 0 for its number. INVALID_ARGUMENT for anything else.
absl::StatusOr<Anchor> ParseAnchor(absl::string_view text);

}  // namespace warpline::audit

#endif  // WARPLINE_AUDIT_RECORD_H_
