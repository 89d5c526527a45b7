#include "server/gpu_server/admin/tenant_metrics.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace warpline::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr const char* kEngineNames[] = {"compute", "copy_in", "copy_out"};

TenantTotals::Key KeyOf(const SessionSnapshot& session) {
  return {session.entitlement.tenant,
          session.devices.size() == 1 ? session.devices[0].ordinal : TenantTotals::kSeveral};
}

TenantTotal TotalOf(const SessionSnapshot& session) {
  TenantTotal total;
  for (size_t i = 0; i < total.engine_ns.size(); ++i) {
    total.engine_ns[i] = static_cast<uint64_t>(session.engines[i].busy_ns);
  }
  total.sessions = 1;
  total.commands = session.traffic.commands;
  total.bulk_bytes = session.traffic.bulk_bytes;
  total.memory_refused = session.traffic.memory_refused;
  total.killed = session.killed ? 1 : 0;
  return total;
}

// The families, each with a series for every key.
class Series {
 public:
  explicit Series(const std::vector<DeviceSnapshot>& devices) {
    for (const DeviceSnapshot& device : devices) uuids_[device.ordinal] = device.uuid;
  }

  void Add(const char* name, const char* help, MetricType type, const TenantTotals::Key& key,
           double value, const char* engine = nullptr) {
    ClientMetric metric;
    const bool several = key.device == TenantTotals::kSeveral;
    const auto uuid = uuids_.find(key.device);
    metric.label = {{"tenant", key.tenant},
                    {"gpu", several ? "several" : absl::StrCat(key.device)},
                    {"UUID", uuid == uuids_.end() ? "" : uuid->second}};
    if (engine != nullptr) metric.label.push_back({"engine", engine});
    metric.counter.value = value;
    metric.gauge.value = value;
    const auto family = std::find_if(families_.begin(), families_.end(),
                                     [name](const auto& one) { return one.name == name; });
    if (family != families_.end()) {
      family->metric.push_back(std::move(metric));
      return;
    }
    families_.push_back({name, help, type, {std::move(metric)}});
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  std::map<int, std::string> uuids_;
  std::vector<MetricFamily> families_;
};

}  // namespace

std::vector<MetricFamily> TenantMetrics::Collect() const {
  const HostSnapshot snapshot = host_->Snapshot();
  Totals totals = host_->counters().ended_tenants.Sums();
  Holdings held;
  for (const SessionSnapshot& session : snapshot.sessions) {
    totals[KeyOf(session)].Add(TotalOf(session));
    for (const SessionDeviceSnapshot& device : session.devices) {
      Held& one = held[{session.entitlement.tenant, device.ordinal}];
      ++one.sessions;
      one.memory_bytes += device.memory_bytes;
    }
  }
  Fold(&totals, &held);
  KeepFromFalling(&totals);
  Series series(snapshot.devices);
  for (const auto& [key, one] : held) {
    series.Add("warpline_tenant_sessions", "Sessions of a tenant on a device.", MetricType::Gauge,
               key, static_cast<double>(one.sessions));
    series.Add("warpline_tenant_memory_bytes", "Device memory that a tenant's sessions hold.",
               MetricType::Gauge, key, static_cast<double>(one.memory_bytes));
  }
  for (const auto& [key, total] : totals) {
    for (size_t i = 0; i < total.engine_ns.size(); ++i) {
      series.Add("warpline_tenant_engine_busy_seconds_total",
                 "How long a tenant has had the engines of a device, where these are dispatched.",
                 MetricType::Counter, key, static_cast<double>(total.engine_ns[i]) / 1e9,
                 kEngineNames[i]);
    }
    series.Add("warpline_tenant_sessions_total", "Sessions of a tenant that were opened.",
               MetricType::Counter, key, static_cast<double>(total.sessions));
    series.Add("warpline_tenant_commands_total", "Commands of a tenant passed on to workers.",
               MetricType::Counter, key, static_cast<double>(total.commands));
    series.Add("warpline_tenant_bulk_bytes_total",
               "Bytes of a tenant's copies that bulk connections carried.", MetricType::Counter,
               key, static_cast<double>(total.bulk_bytes));
    series.Add("warpline_tenant_memory_refused_total",
               "Requests of a tenant for device memory that were refused.", MetricType::Counter,
               key, static_cast<double>(total.memory_refused));
    series.Add("warpline_tenant_killed_sessions_total",
               "Best-effort sessions of a tenant that were ended for more urgent work.",
               MetricType::Counter, key, static_cast<double>(total.killed));
  }
  return series.Take();
}

void TenantMetrics::Fold(Totals* totals, Holdings* held) const {
  std::map<std::string, uint64_t> memory;
  for (const auto& [key, total] : *totals) memory.try_emplace(key.tenant, 0);
  for (const auto& [key, one] : *held) memory[key.tenant] += one.memory_bytes;
  if (memory.size() <= most_tenants_) return;
  std::vector<std::pair<uint64_t, std::string>> by_size;
  for (const auto& [tenant, bytes] : memory) by_size.emplace_back(bytes, tenant);
  std::sort(by_size.rbegin(), by_size.rend());
  by_size.resize(most_tenants_);
  std::set<std::string> shown;
  for (const auto& [bytes, tenant] : by_size) shown.insert(tenant);
  const auto folded = [&shown](const TenantTotals::Key& key) {
    return TenantTotals::Key{shown.contains(key.tenant) ? key.tenant : TenantTotals::kOthers,
                             key.device};
  };
  Totals less_totals;
  for (const auto& [key, total] : *totals) less_totals[folded(key)].Add(total);
  *totals = std::move(less_totals);
  Holdings less_held;
  for (const auto& [key, one] : *held) {
    Held& sum = less_held[folded(key)];
    sum.sessions += one.sessions;
    sum.memory_bytes += one.memory_bytes;
  }
  *held = std::move(less_held);
}

void TenantMetrics::KeepFromFalling(Totals* totals) const {
  MutexLock lock(&mu_);
  for (auto& [key, total] : *totals) {
    const auto said = said_.find(key);
    // What the others have may fall, since who belongs to them changes.
    if (said == said_.end() || key.tenant == TenantTotals::kOthers) continue;
    const TenantTotal& before = said->second;
    for (size_t i = 0; i < total.engine_ns.size(); ++i) {
      total.engine_ns[i] = std::max(total.engine_ns[i], before.engine_ns[i]);
    }
    total.sessions = std::max(total.sessions, before.sessions);
    total.commands = std::max(total.commands, before.commands);
    total.bulk_bytes = std::max(total.bulk_bytes, before.bulk_bytes);
    total.memory_refused = std::max(total.memory_refused, before.memory_refused);
    total.killed = std::max(total.killed, before.killed);
  }
  said_ = *totals;
}

}  // namespace warpline::server
