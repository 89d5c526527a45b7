// The requests that wait for room, and whose turn it is.
#ifndef WARPLINE_SCHEDULER_PLACEMENT_WAITING_LINE_H_
#define WARPLINE_SCHEDULER_PLACEMENT_WAITING_LINE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "scheduler/placement/fit.h"
#include "scheduler/placement/placement.pb.h"
#include "scheduler/placement/pool.h"
#include "scheduler/placement/quota_tree.h"

namespace warpline::placement {

// A request that waits, or a gang of `members` equal ones.
struct Entry {
  uint64_t number = 0;  // Grows with each.
  warpline_placement::Ask ask;
  Want want;
  uint32_t members = 1;
  int64_t since_ns = 0;
  std::vector<warpline_placement::Member> asking;
  // Once it is placed: a place for each member, until they have picked up their leases. By name,
  // since servers may change meanwhile.
  std::vector<warpline_placement::Place> places;
  int64_t pick_up_ns = 0;
  // What is set aside for it.
  std::vector<Site> reserved;
  int64_t reserved_until_ns = kNever;

  bool complete() const { return asking.size() == members; }
  bool placed() const { return !places.empty(); }
};

// Thread-compatible. Entries of one shape wait in one line for each tenant, by priority and then by
// arrival; between tenants the QuotaTree says who is next.
class WaitingLine {
 public:
  // Those of one shape.
  struct Shape {
    // By tenant: (most of all priorities - priority, number).
    std::map<std::string, std::set<std::pair<uint32_t, uint64_t>>> tenants;
    // The Pool's growth at which it did not fit; 0 for none.
    uint64_t unfit_at = 0;
  };
  using ShapeKey = std::tuple<uint64_t, uint32_t, uint32_t, uint32_t, uint32_t, std::string>;

  // Keeps it. One that is complete and not placed may be next.
  Entry* Add(Entry entry);
  void Remove(uint64_t number);
  // Call it after `asking` or `places` of the entry has changed.
  void Update(Entry* entry);

  // A member of a gang has gone. The entry stays, even without any.
  void RemoveMember(Entry* entry, const std::string& ticket);

  Entry* Find(uint64_t number);
  // Null when there is none.
  Entry* FindTicket(const std::string& tenant, const std::string& ticket);
  Entry* FindGang(const std::string& tenant, const std::string& gang);
  // The entry of the ticket, or else of the gang; null for neither.
  const Entry* Look(const std::string& tenant, const std::string& ticket,
                    const std::string& gang) const;
  enum class Verdict {
    kYes,
    kAnother,  // Not this one.
    kNone,     // Nor any later one of its tenant and shape.
  };
  // The one that goes first among those of shapes for which `fits`, which may change the shape, and
  // of those for which `may` says kYes; null when there is none. Those `within_reserve` go first.
  Entry* Next(const QuotaTree& quotas, absl::FunctionRef<bool(const Entry&)> within_reserve,
              absl::FunctionRef<bool(const Entry&, Shape*)> fits,
              absl::FunctionRef<Verdict(const Entry&)> may);

  // How many requests wait before this one, roughly: those of its tenant that came earlier, and of
  // each other tenant as many as get their turn meanwhile.
  uint32_t PositionOf(const Entry& entry, const QuotaTree& quotas) const;
  uint32_t requests() const { return requests_; }
  uint32_t RequestsOf(const std::string& tenant) const;
  const std::map<uint64_t, std::unique_ptr<Entry>>& entries() const { return entries_; }

  static ShapeKey KeyOf(const Entry& entry);

 private:
  struct Count {
    uint32_t requests = 0;
    std::map<uint32_t, uint32_t> by_priority;
  };

  std::map<uint64_t, std::unique_ptr<Entry>> entries_;
  std::map<ShapeKey, Shape> shapes_;
  absl::flat_hash_map<std::pair<std::string, std::string>, uint64_t> tickets_;
  absl::flat_hash_map<std::pair<std::string, std::string>, uint64_t> gangs_;
  // What was counted of each entry.
  absl::flat_hash_map<uint64_t, uint32_t> counted_;
  std::map<std::string, Count> counts_;
  uint32_t requests_ = 0;
};

}  // namespace warpline::placement

#endif  // WARPLINE_SCHEDULER_PLACEMENT_WAITING_LINE_H_
