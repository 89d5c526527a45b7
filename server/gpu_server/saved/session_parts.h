// A session at rest, and the bytes that it consists of besides its manifest: what another server
// needs to go on with it. They go into files (saved_sessions.h), or to another server
// (server/gpu_server/moves).
//
//   journal     what the next worker needs (server/hostlink/handover/journal_file.h)
//   variables   what kernels wrote to module variables, if they did
//   staging-0   staging memory of its bulk connections
//   memory      the device memory, without parts that are all zeros
//
// All but the memory are its state. They are sparse, and are written as a row of extents: offset
// and size, 8 bytes each, and the bytes. An extent without bytes is the last one. A folder has the
// memory in another form (memory_blocks.h).
#ifndef WARPLINE_SERVER_GPU_SERVER_SAVED_SESSION_PARTS_H_
#define WARPLINE_SERVER_GPU_SERVER_SAVED_SESSION_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "proto/saved_session.pb.h"
#include "server/gpu_server/memory/away_memory.h"
#include "server/gpu_server/memory/swap_space.h"

namespace warpline::server {

inline constexpr uint32_t kSavedSessionFormat = 2;

// Where a session that a server goes on with comes from.
enum class Origin {
  kFormerServer,  // The server before this one.
  kOtherServer,   // One that runs now.
  kCheckpoint,
};

// A session at rest, without a worker: all that another server needs to go on with it.
struct SessionCut {
  warpline_internal::SavedSession manifest;
  UniqueFd journal;                  // A JournalFile's memory.
  UniqueFd variables;                // That of CreateVariableFile(); invalid for none.
  std::shared_ptr<AwayMemory> away;  // In host memory; null where the session has none.
  std::vector<UniqueFd> staging;     // By the manifest's ranges of it.
  Origin origin = Origin::kFormerServer;
  std::string device;  // The device that it is to have; empty for the former one.
};

// Returns the bytes of device memory that the sessions have in host memory.
uint64_t HeldBytes(const std::vector<SessionCut>& cuts);
// Returns the sessions' numbers.
std::vector<uint64_t> NumbersOf(const std::vector<SessionCut>& cuts);

// Manifests are no larger: frames that a client did not acknowledge take most of it
// (SessionLink::kMaxKeptBytes).
inline constexpr uint64_t kMostManifestBytes = 64u << 20;

// Where the parts go. Its user calls Begin(), then Add() any number of times, then End(), for one
// part after another. All may block. The user stops at the first error.
class PartSink {
 public:
  virtual ~PartSink() = default;
  virtual absl::Status Begin(const std::string& part) = 0;
  // `bytes` are at most 1 MiB.
  virtual absl::Status Add(std::string bytes) = 0;
  virtual absl::Status End() = 0;
};

// Where the parts come from, in the same way. End() is an error where the part has more than was
// read. Its bytes are untrusted.
class PartSource {
 public:
  virtual ~PartSource() = default;
  virtual absl::Status Begin(const std::string& part) = 0;
  virtual absl::Status Next(char* to, size_t bytes) = 0;
  virtual absl::Status End() = 0;
};

// Returns the manifest of a session that this server may be able to go on with.
// FAILED_PRECONDITION for another format, INVALID_ARGUMENT for what no server writes.
absl::StatusOr<warpline_internal::SavedSession> ParseManifest(const std::string& bytes);
// Takes host memory of so many bytes.
using PlaceTaker = std::function<absl::StatusOr<SwapSpace::Place>(uint64_t bytes)>;
// Returns the host memory for the device memory of a session, which `take` gives; null for a
// session without any. INVALID_ARGUMENT for what no server says, FAILED_PRECONDITION where `space`
// is null; otherwise errors of `take`.
absl::StatusOr<std::shared_ptr<AwayMemory>> TakeMemory(
    const warpline_internal::SavedSession& manifest, const SwapSpace* space,
    const PlaceTaker& take);
// Completes `cut->manifest`, so that it tells of all parts. Called before AddParts() and
// AddState().
void DescribeParts(SessionCut* cut);
// Gives all parts to `to`. `space` has the cut's memory; null where it has none.
absl::Status AddParts(const SessionCut& cut, const SwapSpace* space, PartSink* to);
// These are for the state only.
absl::Status AddState(const SessionCut& cut, PartSink* to);
absl::Status ReadState(PartSource* from, SessionCut* cut);
// Gives the cut a copy of its state, so that the session's next worker can change the original.
absl::Status CopyState(SessionCut* cut);
// Reads what AddParts() gave for this manifest, and takes host memory of `space` for it, which may
// be null where nothing is moved. INVALID_ARGUMENT for what no server would give,
// RESOURCE_EXHAUSTED when there is too little host memory, FAILED_PRECONDITION where there is none;
// otherwise the source's error.
absl::StatusOr<SessionCut> ReadParts(warpline_internal::SavedSession manifest, SwapSpace* space,
                                     PartSource* from);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SAVED_SESSION_PARTS_H_
