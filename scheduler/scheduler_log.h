// What the scheduler logs about tenants and servers, and how often. A tenant's program may acquire
// and release leases all day, and a server that was taken over may report anything, so their lines
// have a budget. What operators do is logged without one.
#ifndef WARPLINE_SCHEDULER_SCHEDULER_LOG_H_
#define WARPLINE_SCHEDULER_SCHEDULER_LOG_H_

#include <cstddef>
#include <string>

#include "common/log/keyed_log_budget.h"

namespace warpline::scheduler {

enum SchedulerLine : size_t {
  kGrantedLine,
  kRefusedLine,
  kEndedLine,  // Ended by tenant, operator or time.
  kOverLine,   // Ended with its last session.
  kWaitingLine,
  kNoticeLine,  // A lease ends soon, or does not any more.
  kServerLine,
  kDuplicateLine,  // Two servers have one name.
  // Something could not be written. The key is "", which has half of the common budget for itself.
  kStoreLine,
  kSchedulerLineCount,
};

// Options for a KeyedLogBudget whose keys are made by the two functions below.
KeyedLogBudgetOptions SchedulerLogOptions();

std::string TenantKey(const std::string& tenant);
std::string ServerKey(const std::string& server);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SCHEDULER_LOG_H_
