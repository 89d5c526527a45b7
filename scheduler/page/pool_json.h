// The pool as the page's JSON (docs/page.md says what its members mean).
#ifndef WARPLINE_SCHEDULER_PAGE_POOL_JSON_H_
#define WARPLINE_SCHEDULER_PAGE_POOL_JSON_H_

#include <string>

#include "scheduler/pool_snapshot.h"

namespace warpline::scheduler::page {

// How many leases that have ended are told, the latest ones.
inline constexpr size_t kMostEnded = 100;

// Everything in `pool` but leases that ended by themselves; `leader` is the address of the
// scheduler that leads, if it is another one. The text is ASCII, and the same for the same pool: no
// time of asking is in it. Bytes that are no UTF-8 are replaced.
std::string PoolJson(const PoolSnapshot& pool, const Viewer& viewer, const std::string& leader);

}  // namespace warpline::scheduler::page

#endif  // WARPLINE_SCHEDULER_PAGE_POOL_JSON_H_
