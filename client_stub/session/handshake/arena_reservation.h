// The range of this process's address space that belongs to a session's device memory.
//
// CUDA programs tell device from host pointers by address, so the client holds the arena's range
// inaccessible: nothing else of the process is ever mapped there.
#ifndef WARPLINE_CLIENT_STUB_SESSION_HANDSHAKE_ARENA_RESERVATION_H_
#define WARPLINE_CLIENT_STUB_SESSION_HANDSHAKE_ARENA_RESERVATION_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace warpline::stub {

// Holds [base, base + bytes) until destroyed. Thread-compatible.
class ArenaReservation {
 public:
  ArenaReservation() = default;
  ArenaReservation(ArenaReservation&& other) noexcept { *this = std::move(other); }
  ArenaReservation& operator=(ArenaReservation&& other) noexcept;
  ~ArenaReservation();

  // Reserves exactly [base, base + bytes); not held() when something is there already.
  static ArenaReservation At(uint64_t base, uint64_t bytes);

  bool held() const { return bytes_ != 0; }
  uint64_t base() const { return base_; }
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t base_ = 0;
  uint64_t bytes_ = 0;
};

// Returns places to try, the preferred one first: sizes from 4 TiB down to 4 GiB, starts that are
// multiples of the size. The first places lie outside the kernel's default layout and
// AddressSanitizer's shadow; the last ones lie in the only range that ThreadSanitizer leaves to
// programs.
struct ArenaCandidate {
  uint64_t base;
  uint64_t bytes;
};
std::vector<ArenaCandidate> ArenaCandidates();

// The same for a session whose worker has the arenas of others, too: places at random in the range
// of the first ones, so that few are taken.
std::vector<ArenaCandidate> SharedArenaCandidates();

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_HANDSHAKE_ARENA_RESERVATION_H_
