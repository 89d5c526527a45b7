// Where threads of a kernel end before others: what is out of range returns at once.
#ifndef WARPLINE_GUARD_REWRITE_EARLY_RETURNS_H_
#define WARPLINE_GUARD_REWRITE_EARLY_RETURNS_H_

#include "guard/rewrite/flatten.h"

namespace warpline::guard {

// Has threads of a kernel end by `@P exit` where they return by `@P ret`, or branch to where
// nothing but the end is. So it can be seen at one place which lanes of a warp go on and which do
// not.
void EndAtOnce(FlatFunction* kernel);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_EARLY_RETURNS_H_
