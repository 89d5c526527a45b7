#include "scheduler/scheduler_log.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace warpline::scheduler {
namespace {

// The budget of one tenant or server.
constexpr LogKind kEach[kSchedulerLineCount] = {
    {"granted", 200, absl::Seconds(30)},   {"refused", 20, absl::Minutes(1)},
    {"ended", 200, absl::Seconds(30)},     {"over", 200, absl::Seconds(30)},
    {"waits", 60, absl::Minutes(1)},       {"notices", 200, absl::Seconds(30)},
    {"servers", 40, absl::Minutes(1)},     {"duplicates", 4, absl::Minutes(5)},
    {"not_written", 10, absl::Minutes(1)},
};
// The budget of all of them together. There are only as many as operators made.
constexpr LogKind kAll[kSchedulerLineCount] = {
    {"granted", 4000, absl::Seconds(1)},   {"refused", 200, absl::Seconds(10)},
    {"ended", 4000, absl::Seconds(1)},     {"over", 4000, absl::Seconds(1)},
    {"waits", 600, absl::Seconds(10)},     {"notices", 4000, absl::Seconds(1)},
    {"servers", 4000, absl::Seconds(5)},   {"duplicates", 400, absl::Seconds(5)},
    {"not_written", 20, absl::Minutes(1)},
};

}  // namespace

KeyedLogBudgetOptions SchedulerLogOptions() {
  KeyedLogBudgetOptions options;
  options.each = kEach;
  options.all = kAll;
  options.max_keys = 4096;
  return options;
}

std::string TenantKey(const std::string& tenant) { return absl::StrCat("tenant ", tenant); }
std::string ServerKey(const std::string& server) { return absl::StrCat("server ", server); }

}  // namespace warpline::scheduler
