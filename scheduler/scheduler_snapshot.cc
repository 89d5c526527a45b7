// What the scheduler says to those who show its pool.
#include <numeric>
#include <utility>

#include "scheduler/scheduler.h"

namespace warpline::scheduler {
namespace {

// The page is not told where its viewers are.
constexpr char kPagePeer[] = "page";

constexpr size_t kMaxText = 256;

bool Exceeds(const placement::TenantSpec& spec, const placement::Usage& used,
             const placement::Usage& more) {
  return (spec.memory_bytes != 0 && used.bytes + more.bytes > spec.memory_bytes) ||
         (spec.max_leases != 0 && used.leases + more.leases > spec.max_leases) ||
         (spec.max_sessions != 0 && used.sessions + more.sessions > spec.max_sessions);
}

// The tenant, or the nearest one above it, whose limit is in the way; empty for none.
std::string LimitInTheWay(const placement::QuotaTree& quotas, const placement::Entry& entry) {
  const placement::Usage more = {.bytes = entry.want.memory_bytes * entry.want.gpus * entry.members,
                                 .leases = entry.members,
                                 .sessions = uint64_t{entry.ask.sessions()} * entry.members};
  std::string name = entry.ask.tenant();
  for (size_t depth = 0; depth < placement::kMaxDepth && !name.empty(); ++depth) {
    const placement::TenantSpec* const spec = quotas.Find(name);
    if (spec == nullptr) return "";
    if (Exceeds(*spec, quotas.UsageOf(name), more)) return name;
    name = spec->parent;
  }
  return "";
}

WaitingInPool Describe(const placement::Entry& entry, const placement::Allocator& allocator) {
  WaitingInPool to;
  to.number = entry.number;
  to.tenant = entry.ask.tenant();
  to.gang = entry.ask.gang();
  to.members = entry.members;
  to.asking = static_cast<uint32_t>(entry.asking.size());
  to.gpus = entry.want.gpus;
  to.named = entry.want.named;
  to.memory_bytes = entry.want.memory_bytes;
  to.sm_percent = entry.want.sm_percent;
  to.priority = entry.ask.priority();
  to.position = allocator.line().PositionOf(entry, allocator.quotas());
  to.since = absl::FromUnixNanos(entry.since_ns);
  to.limit_of = LimitInTheWay(allocator.quotas(), entry);
  using Why = WaitingInPool::Why;
  to.why = entry.placed()            ? Why::kPickUp
           : !entry.complete()       ? Why::kMembers
           : !entry.reserved.empty() ? Why::kSetAside
           : !to.limit_of.empty()    ? Why::kLimit
                                     : Why::kRoom;
  if (to.why != Why::kLimit) to.limit_of.clear();
  return to;
}

}  // namespace

absl::StatusOr<Viewer> Scheduler::ViewerOf(const std::string& credential) {
  if (CheckOperator(credential).ok()) return Viewer{.is_operator = true};
  const auto caller = callers_.Identify(credential, kPagePeer);
  MutexLock lock(&mu_);
  if (absl::IsInvalidArgument(caller.status())) {
    ++counts_.rejected;
    return absl::UnauthenticatedError("this is no credential");
  }
  // Programs of this host need none where there are no tenants; for the page everybody does.
  const auto tenant = TenantOf(caller, /*local=*/false);
  if (!tenant.ok()) return tenant.status();
  return Viewer{.tenant = tenant->name};
}

absl::StatusOr<PoolSnapshot> Scheduler::Snapshot() {
  MutexLock lock(&mu_);
  const absl::Time now = Now();
  PoolSnapshot pool;
  pool.from_follower = options_.only_reads;
  pool.epoch = store_->epoch();
  pool.afterlife = Afterlife();
  pool.leases = store_->Leases();
  pool.tenants = store_->Tenants();
  for (TenantRecord& tenant : pool.tenants) tenant.credential_hash.clear();
  if (pool.tenants.empty()) {
    pool.tenants.emplace_back().name = kDefaultTenant;
    pool.tenants.back().slices = {kAnySlice};
  }
  pool.slices = store_->Slices();
  const auto cordons = store_->Cordons();
  for (const auto& [name, record] : records_) {
    ServerInPool& server = pool.servers.emplace_back();
    server.record = record;
    server.numbers.resize(record.devices.size());
    std::iota(server.numbers.begin(), server.numbers.end(), 0);
    const LiveServer& live = servers_[name];
    const bool up = IsUp(live, now);
    server.state = options_.only_reads      ? "unknown"
                   : !up                    ? "lost"
                   : live.report.draining() ? "draining"
                                            : "up";
    if (!up && !options_.only_reads) server.heard = live.heard;
    for (const CordonRecord& cordon : cordons) {
      if (cordon.server != name) continue;
      server.cordoned = true;
      server.cordon_reason = cordon.reason;
      server.drained = cordon.drained;
      if (server.state != "up") continue;
      server.state = cordon.drained == absl::InfiniteFuture() ? "cordoned" : "draining";
    }
  }
  pool.sessions = SessionsByLease();
  for (const LeaseRecord& lease : pool.leases) {
    const LeaseNotice* const notice = pool_.NoticeFor(lease.id);
    if (notice != nullptr) pool.notices[lease.id] = *notice;
  }
  const placement::Allocator& allocator = pool_.allocator();
  for (const auto& [number, entry] : allocator.line().entries()) {
    pool.waiting.push_back(Describe(*entry, allocator));
  }
  return pool;
}

}  // namespace warpline::scheduler
