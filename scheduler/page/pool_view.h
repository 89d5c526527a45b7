// What a viewer may see of the pool.
#ifndef WARPLINE_SCHEDULER_PAGE_POOL_VIEW_H_
#define WARPLINE_SCHEDULER_PAGE_POOL_VIEW_H_

#include <string>

#include "scheduler/pool_snapshot.h"

namespace warpline::scheduler::page {

// Returns what `tenant` may see: itself and the tenants below it, their leases and requests that
// wait, the slices that they may have, and of servers those devices on which they have leases now.
// No name of another tenant is in it, and nothing that an operator wrote down about a server.
PoolSnapshot SeenByTenant(const PoolSnapshot& pool, const std::string& tenant);

}  // namespace warpline::scheduler::page

#endif  // WARPLINE_SCHEDULER_PAGE_POOL_VIEW_H_
