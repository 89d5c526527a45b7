#include "server/gpu_server/admin/metrics.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "server/hostlink/handover/session_usage.h"
#include "transport/grpc/meter/metered_connections.h"

namespace warpline::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

class Families {
 public:
  void Counter(const char* name, const char* help, uint64_t value) {
    Add(name, help, MetricType::Counter, {}, value);
  }
  void Gauge(const char* name, const char* help, uint64_t value) {
    Add(name, help, MetricType::Gauge, {}, value);
  }
  void Usage(const UsageInfo& row, uint64_t value) {
    std::vector<ClientMetric::Label> labels;
    if (row.label != nullptr) labels.push_back({row.label, row.label_value});
    const bool total = row.kind == UsageKind::kTotal;
    Add(row.metric, row.help, total ? MetricType::Counter : MetricType::Gauge, std::move(labels),
        value);
  }
  void Seconds(const char* name, const char* help, const char* label, const char* value,
               double seconds) {
    Add(name, help, MetricType::Counter, {{label, value}}, seconds);
  }
  void DeviceCounter(const char* name, const char* help, int gpu, uint64_t value) {
    Add(name, help, MetricType::Counter, {{"gpu", absl::StrCat(gpu)}}, value);
  }
  // 1, with what joins the device with DCGM's metrics.
  void DeviceInfo(const DeviceSnapshot& device) {
    Add("warpline_device_info", "Devices, with the labels that DCGM's exporter gives them.",
        MetricType::Gauge,
        {{"gpu", absl::StrCat(device.ordinal)}, {"UUID", device.uuid}, {"modelName", device.name}},
        uint64_t{1});
  }
  void DeviceGauge(const char* name, const char* help, int gpu, uint64_t value) {
    Add(name, help, MetricType::Gauge, {{"gpu", absl::StrCat(gpu)}}, value);
  }
  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  void Add(const char* name, const char* help, MetricType type,
           std::vector<ClientMetric::Label> labels, uint64_t value) {
    Add(name, help, type, std::move(labels), static_cast<double>(value));
  }
  void Add(const char* name, const char* help, MetricType type,
           std::vector<ClientMetric::Label> labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.counter.value = value;
    metric.gauge.value = value;
    for (MetricFamily& family : families_) {
      if (family.name == name) {
        family.metric.push_back(std::move(metric));
        return;
      }
    }
    families_.push_back({name, help, type, {std::move(metric)}});
  }

  std::vector<MetricFamily> families_;
};

}  // namespace

std::vector<MetricFamily> ServerMetrics::Collect() const {
  Families f;
  const HostSnapshot snapshot = host_->Snapshot();
  const ServerCounters& counters = host_->counters();
  TrafficCounters traffic;
  host_->AddTraffic(&traffic);
  f.Counter("warpline_sessions_opened_total", "Sessions that were welcomed.",
            counters.sessions_opened.value());
  f.Counter("warpline_sessions_refused_total", "Sessions that were turned away.",
            counters.sessions_refused.value());
  f.Gauge("warpline_sessions", "Sessions at the moment, opening and ending ones included.",
          static_cast<uint64_t>(host_->sessions()));
  f.Gauge("warpline_draining", "1 while the server is shutting down.", snapshot.draining ? 1 : 0);
  f.Counter("warpline_worker_deaths_total", "Workers that ended before their session.",
            counters.worker_deaths.value());
  f.Counter("warpline_worker_replacements_total", "Sessions that another worker took over.",
            counters.worker_replacements.value());
  f.Counter("warpline_suspensions_total",
            "Times that an idle session's worker was ended until the session is wanted.",
            counters.suspensions.value());
  f.Counter("warpline_memory_evictions_total",
            "Times that a session's memory was moved to the host for another session.",
            counters.memory_moves_out.value());
  f.Counter("warpline_memory_returns_total",
            "Times that a session's memory came back from the host.",
            counters.memory_moves_in.value());
  f.Counter("warpline_faults_total", "Sessions that ended with an error for the application.",
            counters.faults.value());
  f.Counter("warpline_killed_sessions_total",
            "Best-effort sessions that a policy had ended for more urgent work.",
            counters.killed.value());
  f.Counter("warpline_protocol_errors_total",
            "Sessions ended because the client broke the protocol.",
            counters.protocol_errors.value());
  f.Counter("warpline_connections_cut_total",
            "Connections that were cut because they flooded HTTP/2.",
            grpc_internal::CutConnections());
  f.Counter("warpline_resumes_total", "Sessions resumed after they had lost their connection.",
            counters.resumes.value());
  f.Counter("warpline_transfers_total", "Sessions moved to another connection.",
            counters.transfers.value());
  f.Counter("warpline_resumes_refused_total",
            "Attempts to resume with a wrong secret or an unknown session.",
            counters.resumes_refused.value());
  f.Counter("warpline_clients_vanished_total",
            "Sessions ended because the client did not come back.",
            counters.clients_vanished.value());
  uint64_t detached = 0;
  uint64_t unacknowledged = 0;
  uint64_t kept = 0;
  for (const SessionSnapshot& session : snapshot.sessions) {
    detached += session.state == "detached" ? 1 : 0;
    unacknowledged += session.traffic.unacknowledged_bytes;
    kept += session.memory.kept_bytes;
  }
  f.Gauge("warpline_kept_memory_bytes",
          "Device memory that clients returned and that stays theirs until their worker is gone.",
          kept);
  for (const UsageInfo& row : kUsageTable) f.Usage(row, snapshot.usage[row.usage]);
  static constexpr const char* kEngineNames[] = {"compute", "copy_in", "copy_out"};
  for (size_t i = 0; i < std::size(kEngineNames); ++i) {
    double ns = static_cast<double>(counters.ended_engine_ns[i].value());
    for (const SessionSnapshot& session : snapshot.sessions) {
      ns += static_cast<double>(session.engines[i].busy_ns);
    }
    f.Seconds("warpline_engine_busy_seconds_total",
              "How long sessions have had the engines of devices, where these are dispatched.",
              "engine", kEngineNames[i], ns / 1e9);
  }
  f.Gauge("warpline_host_memory_bytes",
          "Page-locked memory of this host that sessions share with their clients.",
          snapshot.host_memory_bytes);
  f.Gauge("warpline_host_memory_limit_bytes", "What all sessions together may share.",
          snapshot.host_memory_limit_bytes);
  f.Gauge("warpline_swap_bytes", "Memory of this host that holds memory moved from devices.",
          snapshot.swap_bytes);
  f.Gauge("warpline_swap_limit_bytes", "What there is for that (--swap_host).",
          snapshot.swap_limit_bytes);
  f.Gauge("warpline_unacknowledged_bytes", "What is kept to be sent to clients again.",
          unacknowledged);
  f.Gauge("warpline_sessions_detached", "Sessions that wait for their client to come back.",
          detached);
  f.Counter("warpline_frames_again_total", "Frames sent to clients again after a resumption.",
            traffic.frames_again.value());
  f.Counter("warpline_frames_received_total", "Frames from clients.",
            traffic.frames_received.value());
  f.Counter("warpline_frames_sent_total", "Frames to clients.", traffic.frames_sent.value());
  f.Counter("warpline_commands_total", "Commands passed on to workers.", traffic.commands.value());
  f.Counter("warpline_command_bytes_total", "Bytes of commands passed on to workers.",
            traffic.command_bytes.value());
  f.Counter("warpline_reply_bytes_total", "Bytes of replies passed on to clients.",
            traffic.reply_bytes.value());
  f.Counter("warpline_bulk_bytes_total",
            "Bytes of copies that bulk connections carried, to workers and to clients.",
            traffic.bulk_bytes.value());
  f.Counter("warpline_memory_requests_total", "Requests for device memory, and returns.",
            traffic.memory_requests.value());
  f.Counter(
      "warpline_memory_refused_total",
      "Requests for device memory that were refused: the lease, the quota or the device had none.",
      traffic.memory_refused.value());
  if (const ModuleStore* const modules = host_->modules(); modules != nullptr) {
    const ModuleStoreCounters& cache = modules->counters();
    f.Counter("warpline_module_cache_hits_total", "Modules that clients did not have to send.",
              cache.hits.value());
    f.Counter("warpline_module_cache_misses_total", "Modules that were asked for and not there.",
              cache.misses.value());
    f.Counter("warpline_module_cache_hit_bytes_total", "Bytes that clients did not have to send.",
              cache.hit_bytes.value());
    f.Counter("warpline_module_cache_stored_total", "Modules that were stored.",
              cache.stored.value());
    f.Counter("warpline_module_cache_stored_bytes_total", "Bytes of modules that were stored.",
              cache.stored_bytes.value());
    f.Counter("warpline_module_cache_evictions_total", "Modules dropped to make room.",
              cache.evictions.value());
    f.Counter("warpline_module_cache_corrupted_total",
              "Modules dropped because the file had changed.", cache.corrupted.value());
    f.Counter("warpline_module_cache_failures_total", "Modules that the disk did not take.",
              cache.failures.value());
    f.Gauge("warpline_module_cache_bytes", "Bytes of modules that are kept.", modules->bytes());
    f.Gauge("warpline_module_cache_modules", "Modules that are kept.", modules->images());
  }
  for (const DeviceSnapshot& device : snapshot.devices) {
    const int gpu = device.ordinal;
    const DeviceMemory::Stats& memory = device.memory;
    f.DeviceInfo(device);
    f.DeviceGauge("warpline_device_sessions", "Sessions on the device.", gpu,
                  static_cast<uint64_t>(device.sessions));
    f.DeviceGauge("warpline_device_memory_total_bytes", "Memory of the device.", gpu,
                  memory.total_bytes);
    f.DeviceGauge("warpline_device_memory_capacity_bytes", "Memory that sessions may hold.", gpu,
                  memory.capacity_bytes);
    f.DeviceGauge("warpline_device_memory_granted_bytes", "Memory that sessions hold.", gpu,
                  memory.pool.used_bytes());
    f.DeviceGauge("warpline_device_memory_stock_bytes", "Memory made ahead, ready to be granted.",
                  gpu, memory.pool.stock_bytes);
    f.DeviceGauge("warpline_device_memory_leaving_bytes",
                  "Memory of ended workers that the device does not show to be free.", gpu,
                  memory.pool.leaving_bytes);
    f.DeviceGauge("warpline_device_memory_stuck_bytes",
                  "The part of it that should have been free long ago.", gpu,
                  memory.pool.stuck_bytes);
    f.DeviceGauge("warpline_device_memory_chunks", "Chunks that exist.", gpu, memory.pool.chunks);
    f.DeviceCounter("warpline_keeper_restarts_total", "Times the keeper was started again.", gpu,
                    memory.keeper_restarts);
  }
  return f.Take();
}

}  // namespace warpline::server
