// Which range of addresses a session offers the server as its arena, one after another while the
// server cannot have them. The process has checked that a range is free here; only the server's
// worker knows whether it is free there, too.
//
//   while (const auto candidate = search.Next()) {
//     const absl::Status status = OfferToServer(*candidate);
//     if (status.ok() || !search.OnRefused(status)) return status;
//   }
//   return search.Failure();
#ifndef WARPLINE_CLIENT_STUB_SESSION_HANDSHAKE_ARENA_SEARCH_H_
#define WARPLINE_CLIENT_STUB_SESSION_HANDSHAKE_ARENA_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client_stub/session/handshake/arena_reservation.h"

namespace warpline::stub {

// Thread-compatible.
class ArenaSearch {
 public:
  // Each refusal costs the server a worker.
  static constexpr int kMostRefusals = 6;

  // The candidates, the preferred one first.
  explicit ArenaSearch(std::vector<ArenaCandidate> candidates)
      : candidates_(std::move(candidates)) {}

  // Returns the next candidate that the server may take, as far as is known; none when there is no
  // other or the server has refused too many.
  std::optional<ArenaCandidate> Next();

  // Notes that the server refused the last candidate with `status`. Returns false when the arena
  // was not the reason: then no other candidate will do either.
  bool OnRefused(const absl::Status& status);

  int refusals() const { return refusals_; }

  // Called once there is no candidate left: returns RESOURCE_EXHAUSTED, with the reasons.
  absl::Status Failure() const;

 private:
  const std::vector<ArenaCandidate> candidates_;
  size_t next_ = 0;
  uint64_t most_bytes_ = ~uint64_t{0};  // The most that the server allows.
  int refusals_ = 0;
  std::string last_refusal_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_HANDSHAKE_ARENA_SEARCH_H_
