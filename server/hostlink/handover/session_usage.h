// What a session's worker counts: how much the session holds of what is limited, and how often
// something happened. The worker counts in memory that the server reads for reports.
//
// kUsageTable says what is counted. `warpline stat`, the metrics and the sums over sessions follow
// from it, so that another counter is a row there and the place that counts:
//
//   usage->Add(Usage::kLogLinesLeftOut);
#ifndef WARPLINE_SERVER_HOSTLINK_HANDOVER_SESSION_USAGE_H_
#define WARPLINE_SERVER_HOSTLINK_HANDOVER_SESSION_USAGE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace warpline {

// A session that meets the limit of handles or module bytes is refused with OUT_OF_MEMORY; one that
// meets the limit of commands in flight or of staging memory waits.
enum class Limit { kHandles, kCommands, kStaging, kModuleBytes };
inline constexpr size_t kLimitCount = 4;
// The names of the limits in metrics and logs.
inline constexpr std::array<const char*, kLimitCount> kLimitNames = {"handles", "commands",
                                                                     "staging", "module_bytes"};

// The rows of kUsageTable, in its order. A new one is the last: a worker may be newer than its
// server.
enum class Usage : uint8_t {
  kCommandsInFlight,
  kHandles,
  kModuleBytes,
  kStagingBytes,
  // How often each Limit was met, in the order of the limits.
  kHandlesLimit,
  kCommandsLimit,
  kStagingLimit,
  kModuleBytesLimit,
  kLogLinesLeftOut,
  // Commands that were accepted, by the engine that they keep busy.
  kComputeCommands,
  kCopyInCommands,
  kCopyOutCommands,
  kNeighbourPointers,
};

enum class UsageKind : uint8_t {
  kHeld,       // How many there are at the moment.
  kHeldBytes,  // How many bytes there are at the moment.
  kTotal,      // How often it happened since the session began; sums include ended sessions.
};

struct UsageInfo {
  Usage usage;
  UsageKind kind;
  // The name in `warpline stat`, which shows the sum of the rows that have the same one.
  const char* stat;
  // The metric, which is the sum over all sessions. Rows that share a metric differ in the value of
  // its label; other metrics have none.
  const char* metric;
  const char* help;
  const char* label = nullptr;
  const char* label_value = nullptr;
};

inline constexpr const char* kLimitHelp =
    "Times that a session met one of its limits: refused for want of handles and module_bytes, "
    "made to wait for want of commands and staging.";

inline constexpr const char* kEngineHelp =
    "Commands that workers accepted, by the engine of the device that they keep busy.";

inline constexpr UsageInfo kUsageTable[] = {
    {Usage::kCommandsInFlight, UsageKind::kHeld, "in_flight", "warpline_commands_in_flight",
     "Commands that workers have taken and not completed."},
    {Usage::kHandles, UsageKind::kHeld, "handles", "warpline_handles",
     "Streams, events, modules, kernels and other objects of sessions."},
    {Usage::kModuleBytes, UsageKind::kHeldBytes, "module_bytes", "warpline_module_bytes",
     "Images of the modules that sessions have loaded."},
    {Usage::kStagingBytes, UsageKind::kHeldBytes, "staging", "warpline_staging_bytes",
     "Host memory that copies pass through at the moment."},
    {Usage::kHandlesLimit, UsageKind::kTotal, "limits_reached", "warpline_limit_reached_total",
     kLimitHelp, "limit", kLimitNames[0]},
    {Usage::kCommandsLimit, UsageKind::kTotal, "limits_reached", "warpline_limit_reached_total",
     kLimitHelp, "limit", kLimitNames[1]},
    {Usage::kStagingLimit, UsageKind::kTotal, "limits_reached", "warpline_limit_reached_total",
     kLimitHelp, "limit", kLimitNames[2]},
    {Usage::kModuleBytesLimit, UsageKind::kTotal, "limits_reached", "warpline_limit_reached_total",
     kLimitHelp, "limit", kLimitNames[3]},
    {Usage::kLogLinesLeftOut, UsageKind::kTotal, "lines_left_out",
     "warpline_log_lines_left_out_total",
     "Lines that workers did not write to the log, because their budgets were used up."},
    {Usage::kComputeCommands, UsageKind::kTotal, "compute", "warpline_engine_commands_total",
     kEngineHelp, "engine", "compute"},
    {Usage::kCopyInCommands, UsageKind::kTotal, "copy_in", "warpline_engine_commands_total",
     kEngineHelp, "engine", "copy_in"},
    {Usage::kCopyOutCommands, UsageKind::kTotal, "copy_out", "warpline_engine_commands_total",
     kEngineHelp, "engine", "copy_out"},
    {Usage::kNeighbourPointers, UsageKind::kTotal, "neighbour_ptrs",
     "warpline_neighbour_pointers_total",
     "Parameters of guarded kernels that looked like addresses of another session's arena."},
};
inline constexpr size_t kUsageCount = std::size(kUsageTable);
// The width of the names in `warpline stat`.
inline constexpr size_t kMaxStatName = 16;

constexpr size_t RowOf(Usage usage) { return static_cast<size_t>(usage); }
constexpr Usage LimitUsage(Limit limit) {
  return static_cast<Usage>(RowOf(Usage::kHandlesLimit) + static_cast<size_t>(limit));
}
static_assert([] {
  for (size_t i = 0; i < kUsageCount; ++i) {
    if (RowOf(kUsageTable[i].usage) != i) return false;
    if (std::string_view(kUsageTable[i].stat).size() > kMaxStatName) return false;
  }
  return LimitUsage(Limit::kModuleBytes) == Usage::kModuleBytesLimit;
}());

// Written by the worker, by any of its threads.
struct SharedUsage {
  // The numbers of the latest commands, counted since the session began. Usage::kCommandsInFlight
  // is their difference.
  std::atomic<uint64_t> commands_taken{0};
  std::atomic<uint64_t> commands_complete{0};
  std::array<std::atomic<uint64_t>, kUsageCount> rows{};

  void Set(Usage usage, uint64_t value) {
    rows[RowOf(usage)].store(value, std::memory_order_relaxed);
  }
  void Add(Usage usage, uint64_t count = 1) {
    rows[RowOf(usage)].fetch_add(count, std::memory_order_relaxed);
  }
  void Meet(Limit limit) { Add(LimitUsage(limit)); }
};

// The usage of a session as the server reads it, or a sum over sessions.
struct SessionUsage {
  std::array<uint64_t, kUsageCount> rows{};

  uint64_t operator[](Usage usage) const { return rows[RowOf(usage)]; }
  void AddAll(const SessionUsage& other) {
    for (size_t i = 0; i < kUsageCount; ++i) rows[i] += other.rows[i];
  }
};

// A worker may have written anything, so the values are bounded such that sums over sessions do not
// overflow.
inline SessionUsage ReadUsage(const SharedUsage& shared) {
  static constexpr uint64_t kMost = 1ull << 48;
  const auto read = [](const std::atomic<uint64_t>& value) {
    return std::min(value.load(std::memory_order_relaxed), kMost);
  };
  SessionUsage usage;
  for (size_t i = 0; i < kUsageCount; ++i) usage.rows[i] = read(shared.rows[i]);
  const uint64_t complete = read(shared.commands_complete);
  usage.rows[RowOf(Usage::kCommandsInFlight)] =
      std::max(read(shared.commands_taken), complete) - complete;
  return usage;
}

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_HANDOVER_SESSION_USAGE_H_
