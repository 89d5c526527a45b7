// Has one lane of a warp make an atomic addition for all of them, where they all add to the same
// address. ptxas does so by itself for addresses that it takes for the same in all lanes, but a
// fenced one never is (docs/decisions/0029-the-guard.md). The pattern is that of A. Adinetz,
// "CUDA Pro Tip: Optimized Filtering with Warp-Aggregated Atomics", 2014.
#ifndef WARPLINE_GUARD_REWRITE_WARP_ATOMICS_H_
#define WARPLINE_GUARD_REWRITE_WARP_ATOMICS_H_

#include "guard/rewrite/flatten.h"

namespace warpline::guard {

// Changes a function of the tenant's. An address is known to be the same in all lanes when it was
// computed once from parameters of the kernel, variables, literals and what is the same for the
// whole block. `has_redux` says whether the module's target knows `redux.sync` (sm_80), which takes
// values that differ by lane.
//
// What is written is PTX as the tenant might have written it, and is fenced like it. Where a
// tenant's address is not the same after all, only its own sums are wrong.
void AggregateAtomics(bool has_redux, FlatFunction* function);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_WARP_ATOMICS_H_
