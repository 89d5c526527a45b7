// Tenants below tenants: what each may lease, what it can count on, and whose turn it is.
//
// A tenant's limits are for all leases of it and of those below it, so a lease must be within the
// limits of every tenant from its own up to the top. Fairness nests as well: whose turn it is, is
// decided at the top first. There the branch goes first that has least in proportion to its weight,
// then within it likewise (weighted max-min fairness of the dominant share, as in H-DRF,
// Bhattacharya et al., SoCC 2013; a device is one unit, of which a lease has the largest of its
// parts of memory, multiprocessors and reserved time).
#ifndef WARPLINE_SCHEDULER_PLACEMENT_QUOTA_TREE_H_
#define WARPLINE_SCHEDULER_PLACEMENT_QUOTA_TREE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace warpline::placement {

// How deep tenants nest.
inline constexpr size_t kMaxDepth = 8;

struct TenantSpec {
  std::string name = {};
  std::string parent = {};      // Empty at the top.
  uint64_t memory_bytes = 0;    // 0 for no limit.
  uint64_t reserved_bytes = 0;  // What it can count on; what it has above is taken back first.
  uint32_t max_leases = 0;      // 0 for no limit.
  uint32_t max_sessions = 0;    // 0 for no limit.
  uint32_t weight = 1;
};

// What leases take together.
struct Usage {
  uint64_t bytes = 0;
  uint64_t leases = 0;
  uint64_t sessions = 0;
  uint64_t milli_gpus = 0;
};

// Thread-compatible. Tenants that nobody has put are taken for ones at the top without limits.
class QuotaTree {
 public:
  // INVALID_ARGUMENT, and nothing changes, when its parent is not known, is below it, or would make
  // a tenant nest deeper than kMaxDepth.
  absl::Status Put(const TenantSpec& tenant);
  // Those below it, if any, are at the top from then on.
  void Remove(const std::string& name);

  void Charge(const std::string& tenant, const Usage& usage);
  void Discharge(const std::string& tenant, const Usage& usage);

  // RESOURCE_EXHAUSTED, naming the tenant whose limit it is, when one more lease of `usage` does
  // not fit.
  absl::Status Check(const std::string& tenant, const Usage& usage) const;
  // Whether it could fit if the tenant and all others had nothing.
  bool CouldEver(const std::string& tenant, const Usage& usage) const;
  // What is left of the tightest limit on memory; all bits set when there is none.
  uint64_t BytesLeft(const std::string& tenant) const;
  // Whether `bytes` more would be within what the tenant, or one above it, can count on.
  bool WithinReserve(const std::string& tenant, uint64_t bytes) const;
  // Whether without `bytes` of what it has the tenant, or one above it, would lack some of what it
  // can count on.
  bool NeededForReserve(const std::string& tenant, uint64_t bytes) const;
  // Whether `a` has less than its fair part in comparison with `b`: negative, positive or zero.
  int Compare(const std::string& a, const std::string& b) const;

  // Null for an unknown tenant. Good until the next change.
  const TenantSpec* Find(const std::string& tenant) const;
  Usage UsageOf(const std::string& tenant) const;
  const std::map<std::string, TenantSpec>& tenants() const { return specs_; }

 private:
  struct Node {
    Usage usage;
    double share = 0;  // milli_gpus by weight.
    uint32_t weight = 1;
    const TenantSpec* spec = nullptr;  // Null for one that nobody has put.
    std::vector<Node*> path;           // From the top to the node itself.
  };

  Node* NodeOf(const std::string& name);
  const Node* FindNode(const std::string& name) const;
  // Makes the paths anew, and the usages of those above.
  void Link();

  std::map<std::string, TenantSpec> specs_;
  std::map<std::string, Node> nodes_;  // Charged as `own_` says for each and those below it.
  std::map<std::string, Usage> own_;
};

}  // namespace warpline::placement

#endif  // WARPLINE_SCHEDULER_PLACEMENT_QUOTA_TREE_H_
