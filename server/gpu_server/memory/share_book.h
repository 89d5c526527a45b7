// What sessions have offered to others of their lease: memory of theirs, and events.
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_SHARE_BOOK_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_SHARE_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "memory/arena_book.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

class SessionMemory;

// Something that a session offers, under a token that cannot be guessed.
struct Offer {
  // Who may open it: see SessionMemoryOptions::shares.
  std::string domain;
  std::weak_ptr<SessionMemory> owner;
  // Whose memory it is, unless it is an event.
  std::string device;
  // Memory of a handle, or the chunks behind a range of the arena, or neither: an event.
  uint64_t handle = 0;
  uint64_t va = 0;
  uint64_t bytes = 0;

  bool is_event() const { return handle == 0 && bytes == 0; }
};

// The offers of all sessions of a server.
class ShareBook {
 public:
  static constexpr size_t kTokenBytes = 16;
  static constexpr size_t kMostOfOneSession = 16384;

  // The token of an offer. Memory that its owner offers already keeps its token; each event has
  // one of its own. RESOURCE_EXHAUSTED when its owner makes too many.
  absl::StatusOr<std::string> Add(Offer offer) RUNS_ON(control_loop);
  // The offer, if `domain` may open it. NOT_FOUND otherwise, whatever the reason.
  absl::StatusOr<Offer> Find(const std::string& token, const std::string& domain) const
      RUNS_ON(control_loop);
  // Returns true if the offer's memory is offered by its owner already, as it is.
  bool Knows(const Offer& offer) const RUNS_ON(control_loop);
  // Returns true if the session offers memory: any, or that of a handle.
  bool OffersMemory(const SessionMemory* owner) const RUNS_ON(control_loop);
  bool OffersHandle(const SessionMemory* owner, uint64_t handle) const RUNS_ON(control_loop);
  // Returns the ranges of the arena that the session offers, by address; none overlap.
  // They are valid until the session's offers change.
  absl::Span<const ArenaRange> OfferedRanges(const SessionMemory* owner) const
      RUNS_ON(control_loop);
  // Ends the offer of a token, if it is the owner's.
  void Remove(const std::string& token, const SessionMemory* owner) RUNS_ON(control_loop);
  // Ends the offers of memory that the owner gives back: of a handle, or of ranges that reach into
  // [va, va + bytes).
  void RemoveHandle(const SessionMemory* owner, uint64_t handle) RUNS_ON(control_loop);
  void RemoveRange(const SessionMemory* owner, uint64_t va, uint64_t bytes) RUNS_ON(control_loop);
  // Ends a session's offers.
  void RemoveAllOf(const SessionMemory* owner) RUNS_ON(control_loop);

 private:
  struct Entry {
    Offer offer;
    const SessionMemory* owner;
  };
  using Range = std::pair<uint64_t, uint64_t>;  // Address and bytes.
  // What one session offers.
  struct Own {
    std::map<uint64_t, std::string> handles;
    std::map<Range, std::string> ranges;
    std::set<std::string> events;
    // OfferedRanges(), once asked for; none after `ranges` has changed.
    mutable std::optional<std::vector<ArenaRange>> merged;

    size_t size() const { return handles.size() + ranges.size() + events.size(); }
  };
  std::map<std::string, Entry> offers_ ABSL_GUARDED_BY(control_loop);  // By token.
  std::map<const SessionMemory*, Own> own_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_SHARE_BOOK_H_
