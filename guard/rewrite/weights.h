// How long instructions may take, against an addition: what bounds the time between two polls of
// the stop word (docs/guarded-ptx.md, Loops). Thread-safe.
#ifndef WARPLINE_GUARD_REWRITE_WEIGHTS_H_
#define WARPLINE_GUARD_REWRITE_WEIGHTS_H_

#include <cstdint>

#include "ptx/ast.h"

namespace warpline::guard {

int64_t WeightOf(const ptx::Instruction& instruction);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_WEIGHTS_H_
