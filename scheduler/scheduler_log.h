// What the scheduler says in the log of tenants and servers, and how often: a tenant's program may
// ask for leases and release them all day, and a server that was taken over may report anything.
// What operators do is said without a budget.
#ifndef WARPLINE_SCHEDULER_SCHEDULER_LOG_H_
#define WARPLINE_SCHEDULER_SCHEDULER_LOG_H_

#include <cstddef>
#include <string>

#include "common/log/keyed_log_budget.h"

namespace warpline::scheduler {

enum SchedulerLine : size_t {
  kGrantedLine,
  kRefusedLine,
  kEndedLine,  // By tenant, operator or time.
  kOverLine,   // With its last session.
  kServerLine,
  kStoreLine,  // What could not be written; of the key "".
  kSchedulerLineCount,
};

// For a KeyedLogBudget by the keys below.
KeyedLogBudgetOptions SchedulerLogOptions();

std::string TenantKey(const std::string& tenant);
std::string ServerKey(const std::string& server);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SCHEDULER_LOG_H_
