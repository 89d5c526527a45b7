// Usage of a session: how much it holds of what is limited in its worker. The worker counts, in
// memory that the server reads for reports.
#ifndef WARPLINE_SERVER_HANDOVER_SESSION_USAGE_H_
#define WARPLINE_SERVER_HANDOVER_SESSION_USAGE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace warpline {

// A session that meets the limit of handles or module bytes is refused with OUT_OF_MEMORY; one that
// meets the limit of commands in flight or of staging memory waits.
enum class Limit { kHandles, kCommands, kStaging, kModuleBytes };
inline constexpr size_t kLimitCount = 4;
// The names of the limits in metrics and logs.
inline constexpr std::array<const char*, kLimitCount> kLimitNames = {"handles", "commands",
                                                                     "staging", "module_bytes"};

// Written by the worker.
struct SharedUsage {
  std::atomic<uint64_t> handles{0};
  std::atomic<uint64_t> module_bytes{0};
  std::atomic<uint64_t> staging_bytes{0};
  // The numbers of the latest commands, counted since the session began.
  std::atomic<uint64_t> commands_taken{0};
  std::atomic<uint64_t> commands_complete{0};
  // How often each limit was met.
  std::array<std::atomic<uint32_t>, kLimitCount> met{};
  // The lines that budgets of the worker left out of its log.
  std::atomic<uint64_t> log_lines_left_out{0};

  void Meet(Limit limit) {
    met[static_cast<size_t>(limit)].fetch_add(1, std::memory_order_relaxed);
  }
};

// The usage as the server reads it. A worker may have written anything, so the values are bounded
// such that sums over sessions do not overflow.
struct SessionUsage {
  uint64_t handles = 0;
  uint64_t module_bytes = 0;
  uint64_t staging_bytes = 0;
  uint64_t commands_in_flight = 0;
  std::array<uint64_t, kLimitCount> met{};
  uint64_t log_lines_left_out = 0;
};

inline SessionUsage ReadUsage(const SharedUsage& shared) {
  static constexpr uint64_t kMost = 1ull << 48;
  const auto read = [](const std::atomic<uint64_t>& value) {
    return std::min(value.load(std::memory_order_relaxed), kMost);
  };
  SessionUsage usage;
  usage.handles = read(shared.handles);
  usage.module_bytes = read(shared.module_bytes);
  usage.staging_bytes = read(shared.staging_bytes);
  const uint64_t complete = read(shared.commands_complete);
  usage.commands_in_flight = std::max(read(shared.commands_taken), complete) - complete;
  usage.log_lines_left_out = read(shared.log_lines_left_out);
  for (size_t i = 0; i < kLimitCount; ++i) {
    usage.met[i] = shared.met[i].load(std::memory_order_relaxed);
  }
  return usage;
}

}  // namespace warpline

#endif  // WARPLINE_SERVER_HANDOVER_SESSION_USAGE_H_
