// How long instructions may take, against an addition: what bounds the time between two polls of
// the stop word. Thread-safe.
#ifndef WARPLINE_GUARD_VERIFY_WEIGHTS_H_
#define WARPLINE_GUARD_VERIFY_WEIGHTS_H_

#include <cstdint>

#include "guard/verify/reader.h"

namespace warpline::guard {

int64_t WeightOf(const Instruction& instruction);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_WEIGHTS_H_
