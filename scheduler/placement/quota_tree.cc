#include "scheduler/placement/quota_tree.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace warpline::placement {
namespace {

void Add(const Usage& more, Usage* to) {
  to->bytes += more.bytes;
  to->leases += more.leases;
  to->sessions += more.sessions;
  to->milli_gpus += more.milli_gpus;
}

void Subtract(const Usage& less, Usage* from) {
  from->bytes -= std::min(from->bytes, less.bytes);
  from->leases -= std::min(from->leases, less.leases);
  from->sessions -= std::min(from->sessions, less.sessions);
  from->milli_gpus -= std::min(from->milli_gpus, less.milli_gpus);
}

double ShareOf(const Usage& usage, uint32_t weight) {
  return static_cast<double>(usage.milli_gpus) / std::max(weight, 1u);
}

absl::Status CheckOne(const TenantSpec& tenant, const Usage& held, const Usage& more) {
  if (tenant.max_leases != 0 && held.leases + more.leases > tenant.max_leases) {
    return absl::ResourceExhaustedError(absl::StrCat("tenant ", tenant.name, " holds ", held.leases,
                                                     " leases, and its limit is ",
                                                     tenant.max_leases));
  }
  if (tenant.max_sessions != 0 && held.sessions + more.sessions > tenant.max_sessions) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tenant ", tenant.name, " may have ", tenant.max_sessions,
                     " sessions and its leases hold ", held.sessions));
  }
  if (tenant.memory_bytes != 0 && held.bytes + more.bytes > tenant.memory_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "tenant ", tenant.name, " may lease ", tenant.memory_bytes >> 20, " MiB and holds ",
        held.bytes >> 20, " MiB; ", more.bytes >> 20, " MiB wanted"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status QuotaTree::Put(const TenantSpec& tenant) {
  size_t above = 0;
  for (std::string at = tenant.parent; !at.empty(); ++above) {
    const auto parent = specs_.find(at);
    if (at == tenant.name || above >= kMaxDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("tenant ", tenant.name, " cannot be below ", tenant.parent,
                       at == tenant.name ? ", which is below it" : ": that nests too deep"));
    }
    if (parent == specs_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("there is no tenant ", at, " to be below"));
    }
    at = parent->second.parent;
  }
  // How deep those below it nest.
  size_t below = 0;
  for (const auto& [name, spec] : specs_) {
    size_t depth = 1;
    std::string at = spec.parent;
    while (!at.empty() && at != tenant.name) {
      ++depth;
      const auto parent = specs_.find(at);
      at = parent == specs_.end() ? "" : parent->second.parent;
    }
    if (at == tenant.name) below = std::max(below, depth);
  }
  if (above + 1 + below > kMaxDepth) {
    return absl::InvalidArgumentError(absl::StrCat("tenants nest at most ", kMaxDepth, " deep"));
  }
  specs_[tenant.name] = tenant;
  Link();
  return absl::OkStatus();
}

void QuotaTree::Remove(const std::string& name) {
  specs_.erase(name);
  for (auto& [other, spec] : specs_) {
    if (spec.parent == name) spec.parent.clear();
  }
  Link();
}

QuotaTree::Node* QuotaTree::NodeOf(const std::string& name) {
  const auto [it, added] = nodes_.try_emplace(name);
  if (added) it->second.path = {&it->second};
  return &it->second;
}

const QuotaTree::Node* QuotaTree::FindNode(const std::string& name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : &found->second;
}

void QuotaTree::Link() {
  nodes_.clear();
  for (const auto& [name, spec] : specs_) {
    Node* const node = NodeOf(name);
    node->spec = &spec;
    node->weight = std::max(spec.weight, 1u);
    node->path.clear();
    const TenantSpec* at = &spec;
    while (at != nullptr && node->path.size() < kMaxDepth) {
      node->path.push_back(NodeOf(at->name));
      const auto parent = specs_.find(at->parent);
      at = parent == specs_.end() ? nullptr : &parent->second;
    }
    std::reverse(node->path.begin(), node->path.end());
  }
  for (const auto& [name, usage] : own_) {
    for (Node* const node : NodeOf(name)->path) Add(usage, &node->usage);
  }
  for (auto& [name, node] : nodes_) node.share = ShareOf(node.usage, node.weight);
}

void QuotaTree::Charge(const std::string& tenant, const Usage& usage) {
  Add(usage, &own_[tenant]);
  for (Node* const node : NodeOf(tenant)->path) {
    Add(usage, &node->usage);
    node->share = ShareOf(node->usage, node->weight);
  }
}

void QuotaTree::Discharge(const std::string& tenant, const Usage& usage) {
  Usage& own = own_[tenant];
  Subtract(usage, &own);
  Node* const charged = NodeOf(tenant);
  for (Node* const node : charged->path) {
    Subtract(usage, &node->usage);
    node->share = ShareOf(node->usage, node->weight);
  }
  if (own.leases != 0) return;
  own_.erase(tenant);
  if (charged->spec == nullptr) nodes_.erase(tenant);
}

absl::Status QuotaTree::Check(const std::string& tenant, const Usage& usage) const {
  const Node* const node = FindNode(tenant);
  if (node == nullptr) return absl::OkStatus();
  for (auto at = node->path.rbegin(); at != node->path.rend(); ++at) {
    if ((*at)->spec == nullptr) continue;
    if (auto status = CheckOne(*(*at)->spec, (*at)->usage, usage); !status.ok()) return status;
  }
  return absl::OkStatus();
}

bool QuotaTree::CouldEver(const std::string& tenant, const Usage& usage) const {
  const Node* const node = FindNode(tenant);
  if (node == nullptr) return true;
  return std::all_of(node->path.begin(), node->path.end(), [&](const Node* at) {
    return at->spec == nullptr || CheckOne(*at->spec, Usage(), usage).ok();
  });
}

uint64_t QuotaTree::BytesLeft(const std::string& tenant) const {
  uint64_t left = std::numeric_limits<uint64_t>::max();
  const Node* const node = FindNode(tenant);
  if (node == nullptr) return left;
  for (const Node* const at : node->path) {
    if (at->spec == nullptr || at->spec->memory_bytes == 0) continue;
    const uint64_t limit = at->spec->memory_bytes;
    left = std::min(left, limit - std::min(limit, at->usage.bytes));
  }
  return left;
}

bool QuotaTree::WithinReserve(const std::string& tenant, uint64_t bytes) const {
  const Node* const node = FindNode(tenant);
  if (node == nullptr) return false;
  return std::any_of(node->path.begin(), node->path.end(), [&](const Node* at) {
    return at->spec != nullptr && at->spec->reserved_bytes != 0 &&
           at->usage.bytes + bytes <= at->spec->reserved_bytes;
  });
}

bool QuotaTree::NeededForReserve(const std::string& tenant, uint64_t bytes) const {
  const Node* const node = FindNode(tenant);
  if (node == nullptr) return false;
  return std::any_of(node->path.begin(), node->path.end(), [&](const Node* at) {
    return at->spec != nullptr && at->usage.bytes < at->spec->reserved_bytes + bytes &&
           at->spec->reserved_bytes != 0;
  });
}

int QuotaTree::Compare(const std::string& a, const std::string& b) const {
  const Node* const x = FindNode(a);
  const Node* const y = FindNode(b);
  const auto compare = [](double s, double t) { return s < t ? -1 : s > t ? 1 : 0; };
  if (x == nullptr || y == nullptr) {
    return compare(x == nullptr ? 0 : x->path.front()->share,
                   y == nullptr ? 0 : y->path.front()->share);
  }
  for (size_t i = 0; i < x->path.size() && i < y->path.size(); ++i) {
    if (x->path[i] == y->path[i]) continue;
    return compare(x->path[i]->share, y->path[i]->share);
  }
  // One is above the other, and its own leases are part of its share.
  return 0;
}

const TenantSpec* QuotaTree::Find(const std::string& tenant) const {
  const auto found = specs_.find(tenant);
  return found == specs_.end() ? nullptr : &found->second;
}

Usage QuotaTree::UsageOf(const std::string& tenant) const {
  const Node* const node = FindNode(tenant);
  return node == nullptr ? Usage() : node->usage;
}

}  // namespace warpline::placement
