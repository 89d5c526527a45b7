// What sessions that have ended had, by tenant and device, so that the totals of a tenant do not
// fall when a session of its ends.
#ifndef WARPLINE_SERVER_HOSTLINK_HANDOVER_TENANT_TOTALS_H_
#define WARPLINE_SERVER_HOSTLINK_HANDOVER_TENANT_TOTALS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace warpline {

// A sum over sessions of one tenant on one device.
struct TenantTotal {
  std::array<uint64_t, 3> engine_ns = {};  // Compute, copies in, copies out.
  uint64_t sessions = 0;
  uint64_t commands = 0;
  uint64_t bulk_bytes = 0;
  uint64_t memory_refused = 0;
  uint64_t killed = 0;  // Sessions that were ended for more urgent work.

  void Add(const TenantTotal& other) {
    for (size_t i = 0; i < engine_ns.size(); ++i) engine_ns[i] += other.engine_ns[i];
    sessions += other.sessions;
    commands += other.commands;
    bulk_bytes += other.bulk_bytes;
    memory_refused += other.memory_refused;
    killed += other.killed;
  }
};

// Thread-safe.
class TenantTotals {
 public:
  // A session that had several devices is of none of them.
  static constexpr int kSeveral = -1;
  // Whose totals were added up because there were too many. No tenant can have the name.
  static constexpr char kOthers[] = "(others)";
  struct Key {
    std::string tenant;  // Empty for sessions without a scheduler's lease.
    int device = kSeveral;
    auto operator<=>(const Key&) const = default;
  };

  explicit TenantTotals(size_t most = 4096) : most_(most) {}

  // With more than `most` keys, the one that has been silent for longest becomes one of the others.
  void Add(const Key& key, const TenantTotal& total);
  std::map<Key, TenantTotal> Sums() const;

 private:
  struct Entry {
    TenantTotal total;
    uint64_t turn = 0;  // Of the last Add().
  };

  const size_t most_;
  mutable Mutex mu_;
  uint64_t turn_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<Key, Entry> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_HANDOVER_TENANT_TOTALS_H_
