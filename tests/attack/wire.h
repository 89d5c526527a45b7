// The wire suite: what a client does over the network, or from the server's host, that nobody
// should get through with.
//
// An attack is a short sequence that says for itself what it would be to succeed: bytes of somebody
// else, more than a limit allows, an answer that it has no right to, a server that keeps its
// neighbours waiting or grows without bound. attack.py has each made by a process of its own
// against a running server, and looks after each whether the server lives, a neighbour is right and
// an honest client gets a session.
#ifndef WARPLINE_TESTS_ATTACK_WIRE_H_
#define WARPLINE_TESTS_ATTACK_WIRE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/serving/tls_files.h"
#include "common/unique_fd.h"
#include "proto/tier.h"

namespace warpline::attack {

// The server that is attacked, on this host.
struct WireTarget {
  std::string endpoint;  // HOST:PORT
  pid_t pid = 0;
  std::string log;              // The file that it logs to.
  int scale = 1;                // Floods are so many times as large.
  Tier tier = Tier::kIsolated;  // Of the sessions that WireSession::Open() opens.
  // Where other sessions have memory. Only in a process that has several are these addresses
  // anything to a command.
  std::vector<uint64_t> foreign;
  // For a server with TLS; empty for one without.
  TlsFiles tls;
};

enum class WireOutcome {
  kStopped,
  kSucceeded,
  kUnprepared,  // Its first steps failed, so that it shows nothing; counts as not stopped.
  kNotHere,     // This host lacks what the attack is about.
};

struct WireResult {
  WireOutcome outcome = WireOutcome::kStopped;
  std::string detail;
};

struct WireAttack {
  const char* name;
  const char* finding;  // Of the review, or "-" for a sibling.
  // Flags of a server against which the attack must succeed, separated by commas, since they raise
  // the limit that stops it; empty when no flag does.
  const char* without;
  WireResult (*run)(const WireTarget& target);
};

// By family; each has a file.
absl::Span<const WireAttack> OpeningAttacks();
absl::Span<const WireAttack> FrameAttacks();
absl::Span<const WireAttack> AddressAttacks();
absl::Span<const WireAttack> MemoryAttacks();
absl::Span<const WireAttack> CodeAttacks();
absl::Span<const WireAttack> OthersAttacks();
absl::Span<const WireAttack> ResumptionAttacks();
absl::Span<const WireAttack> AdminAttacks();
absl::Span<const WireAttack> FloodAttacks();
absl::Span<const WireAttack> SharedMemoryAttacks();
absl::Span<const WireAttack> BulkAttacks();
absl::Span<const WireAttack> RelayAttacks();
absl::Span<const WireAttack> WindowAttacks();
absl::Span<const WireAttack> LibraryAttacks();

WireResult Stopped(std::string detail);
WireResult Succeeded(std::string detail);
WireResult NotHere(std::string detail);
WireResult Unprepared(std::string why);
WireResult Unprepared(const absl::Status& why);

// When a row gives up. No row decides by how long something took: each waits for an event, and only
// an event that does not come at all costs this time.
inline constexpr absl::Duration kPatience = absl::Seconds(60);
// Waits until `reached` says so. Returns false when it has not come to that within `patience`.
bool AwaitThat(const std::function<bool()>& reached, absl::Duration patience = kPatience);

// Returns true if what the server says of a worker that ended means that it crashed. A worker that
// refuses something says why it ends.
bool SaysCrashed(const std::string& why);

// The processes that the server and what it started have started: its workers are among them.
std::set<pid_t> Workers(const WireTarget& target);
// How long a session may stay without its client: a server keeps it for
// SessionLimits::resume_timeout, which is 30 s, and then has to end its processes.
inline constexpr absl::Duration kLeaving = absl::Seconds(90);
// Stopped when those of the server's processes that were not among `before` are gone within
// kLeaving. Processes that come meanwhile do not count: they are those of honest clients.
WireResult JudgeLeftovers(const WireTarget& target, const std::set<pid_t>& before);
// The most threads that one process of the server has.
int64_t MostThreads(const WireTarget& target);

// Sends so many times on a thread of its own, which waits for ever once the server reads no more,
// until all is sent, nothing has gone for kStalled, or kPatience is over. What `send` uses stays
// until the process ends.
inline constexpr absl::Duration kStalled = absl::Seconds(2);
void Flood(int64_t times, std::function<void(int64_t)> send);

// Whether the server has left a connection open on which it has nothing to say.
bool IsOpen(const UniqueFd& fd);

// What a server holds.
struct Footprint {
  int64_t resident_kib = 0;
  int64_t descriptors = 0;
  int64_t threads = 0;
  int64_t log_bytes = 0;
  absl::Time at = {};  // When it was measured.
};
// Once a peer's budget of a kind of line is used up, there is one line of it every 30 s or a minute
// (server_log.cc), and the neighbours of an attack have lines of their own.
inline constexpr double kLogBytesASecond = 100;
Footprint Measure(const WireTarget& target);
// Returns the most memory that the server ever had.
int64_t PeakKib(const WireTarget& target);
// Stopped when the server has grown by no more than `most` since `before`, or shrinks to that
// within kPatience. For each second that the attack took, kLogBytesASecond more of the log are
// allowed.
WireResult JudgeGrowth(const WireTarget& target, const Footprint& before, const Footprint& most);

// Opens an isolated session as an honest client, writes to its memory and reads it back. An error
// says what went wrong; DEADLINE_EXCEEDED when an answer did not come within kPatience.
absl::Status HonestSession(const WireTarget& target);
// Whether an honest client is served while the attack goes on.
WireResult JudgeNeighbour(const WireTarget& target, const std::string& meanwhile);

// Judges `count` streams that the server has taken and on which nothing is said. Stopped when an
// honest client is served, and no more than `most` of them are kept. The others have to give way:
// one that ends since no hello came in time (DEADLINE_EXCEEDED) counts as kept. `ended` says how
// the stream of a number has ended; nothing while it is open.
using StreamEnded = std::function<std::optional<absl::Status>(size_t number)>;
WireResult JudgeSilent(const WireTarget& target, const std::string& what, size_t count, size_t most,
                       const StreamEnded& ended);

}  // namespace warpline::attack

#endif  // WARPLINE_TESTS_ATTACK_WIRE_H_
