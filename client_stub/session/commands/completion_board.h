// The worker's reports of completion: up to which command each stream, and the whole session, is
// complete.
#ifndef WARPLINE_CLIENT_STUB_SESSION_COMMANDS_COMPLETION_BOARD_H_
#define WARPLINE_CLIENT_STUB_SESSION_COMMANDS_COMPLETION_BOARD_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client_stub/session/waits/spin_mutex.h"

namespace warpline::stub {

// Thread-safe.
class CompletionBoard {
 public:
  // Reports about more streams than this are not believed.
  static constexpr size_t kMaxStreams = 1u << 16;

  // Notes that everything up to `seq` on `stream` is complete, and everything of the session up to
  // `all_seq`. Numbers behind earlier ones change nothing. Returns false when there are too many
  // streams.
  bool Update(uint64_t stream, uint64_t seq, uint64_t all_seq);

  // Returns true when command `seq` of `stream` is complete.
  bool Retired(uint64_t stream, uint64_t seq) const;

  uint64_t all_seq() const { return all_seq_.load(std::memory_order_acquire); }

  // Drops the entry of `stream` once everything up to `last_seq` is complete.
  void Forget(uint64_t stream, uint64_t last_seq);

 private:
  struct alignas(64) Shard {
    mutable SpinMutex mu;
    absl::flat_hash_map<uint64_t, uint64_t> seqs ABSL_GUARDED_BY(mu);
  };
  struct Forgotten {
    uint64_t stream;
    uint64_t last_seq;
  };

  static size_t Index(uint64_t stream) { return (stream * 0x9e3779b97f4a7c15u) >> 60; }
  void DropForgotten(uint64_t all_seq);

  std::atomic<uint64_t> all_seq_{0};
  std::atomic<size_t> streams_{0};
  std::array<Shard, 16> shards_;
  std::atomic<bool> has_forgotten_{false};
  SpinMutex forgotten_mu_;  // Taken before a shard's.
  std::vector<Forgotten> forgotten_ ABSL_GUARDED_BY(forgotten_mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_COMMANDS_COMPLETION_BOARD_H_
