#include "scheduler/placement/fair_shares.h"

#include <algorithm>
#include <numeric>

namespace warpline::placement {
namespace {

// By weighted max-min fairness. Nobody wants more than `amount`.
std::vector<uint64_t> DivideByWeight(const std::vector<uint64_t>& wanted,
                                     const std::vector<Claim>& claims, uint64_t amount) {
  const auto weight_of = [&](size_t i) { return uint64_t{std::max(claims[i].weight, 1u)}; };
  std::vector<size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return wanted[a] * weight_of(b) < wanted[b] * weight_of(a);
  });
  uint64_t weights = 0;
  for (const size_t i : order) weights += weight_of(i);
  std::vector<uint64_t> shares(wanted.size(), 0);
  // Who wants least for its weight is content first, and leaves the rest to the others.
  for (const size_t i : order) {
    shares[i] = std::min(wanted[i], amount * weight_of(i) / weights);
    amount -= shares[i];
    weights -= weight_of(i);
  }
  return shares;
}

class Tree {
 public:
  Tree(const QuotaTree& quotas, const std::map<std::string, uint64_t>& wanted, uint64_t amount,
       uint64_t bytes_per_gpu, bool whole_reserves)
      : amount_(amount), whole_reserves_(whole_reserves) {
    for (const auto& [name, spec] : quotas.tenants()) {
      Node& node = nodes_[name];
      node.weight = std::max(spec.weight, 1u);
      // Not more than there is, so that products below stay small.
      const double gpus =
          static_cast<double>(spec.reserved_bytes) / static_cast<double>(bytes_per_gpu);
      node.reserved = static_cast<uint64_t>(std::min(gpus * 1000, static_cast<double>(amount)));
      nodes_[spec.parent].children.push_back(name);
    }
    for (const auto& [name, milli] : wanted) {
      if (quotas.Find(name) == nullptr) nodes_[""].children.push_back(name);
      nodes_[name].own = std::min(milli, amount);
    }
  }

  std::map<std::string, uint64_t> Share() {
    (void)Sum("", 0);
    Give("", amount_, 0);
    shares_.erase("");
    return std::move(shares_);
  }

 private:
  struct Node {
    uint32_t weight = 1;
    uint64_t reserved = 0;
    uint64_t own = 0;     // What it wants for leases of its own.
    uint64_t wanted = 0;  // With all below it.
    std::vector<std::string> children;
  };

  uint64_t Sum(const std::string& name, size_t depth) {
    Node& node = nodes_[name];
    node.wanted = node.own;
    for (const std::string& child : node.children) {
      if (depth <= kMaxDepth) node.wanted += Sum(child, depth + 1);
    }
    if (whole_reserves_) node.wanted = std::max(node.wanted, node.reserved);
    node.wanted = std::min(node.wanted, amount_);
    return node.wanted;
  }

  void Give(const std::string& name, uint64_t amount, size_t depth) {
    const Node& node = nodes_[name];
    std::vector<Claim> claims = {{node.own, 0, 1}};
    for (const std::string& child : node.children) {
      const Node& below = nodes_[child];
      claims.push_back({below.wanted, below.reserved, below.weight});
    }
    const std::vector<uint64_t> shares = Divide(claims, amount);
    // Of what is reserved for it and it does not want, its own leases have the use.
    shares_[name] = node.children.empty() ? amount : shares[0];
    for (size_t i = 0; i < node.children.size() && depth <= kMaxDepth; ++i) {
      Give(node.children[i], shares[i + 1], depth + 1);
    }
  }

  const uint64_t amount_;
  const bool whole_reserves_;
  std::map<std::string, Node> nodes_;
  std::map<std::string, uint64_t> shares_;
};

}  // namespace

std::vector<uint64_t> Divide(const std::vector<Claim>& claims, uint64_t amount) {
  std::vector<uint64_t> first, rest;
  for (const Claim& claim : claims) {
    first.push_back(std::min({claim.wanted, claim.reserved, amount}));
  }
  std::vector<uint64_t> shares = DivideByWeight(first, claims, amount);
  for (const uint64_t share : shares) amount -= share;
  for (size_t i = 0; i < claims.size(); ++i) {
    const uint64_t more = claims[i].wanted - std::min(claims[i].wanted, shares[i]);
    rest.push_back(std::min(more, amount));
  }
  const std::vector<uint64_t> more = DivideByWeight(rest, claims, amount);
  for (size_t i = 0; i < claims.size(); ++i) shares[i] += more[i];
  return shares;
}

std::map<std::string, uint64_t> FairShares(const QuotaTree& quotas,
                                           const std::map<std::string, uint64_t>& wanted,
                                           uint64_t amount, uint64_t bytes_per_gpu,
                                           bool whole_reserves) {
  return Tree(quotas, wanted, amount, std::max<uint64_t>(bytes_per_gpu, 1), whole_reserves).Share();
}

}  // namespace warpline::placement
