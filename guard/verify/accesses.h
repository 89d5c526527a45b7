// Decides whether one access stays in the memory that its thread may touch. Thread-safe.
#ifndef WARPLINE_GUARD_VERIFY_ACCESSES_H_
#define WARPLINE_GUARD_VERIFY_ACCESSES_H_

#include "guard/verify/fences.h"
#include "guard/verify/instructions.h"
#include "guard/verify/names.h"
#include "guard/verify/reader.h"

namespace warpline::guard {

// Where an access stands.
struct Surroundings {
  const Limits& limits;
  const Scope& scope;
  const Fences& fences;
};

// `address` is the operand of the access.
Refusal CheckAccess(const Access& access, const Operand& address, const Surroundings& here);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_ACCESSES_H_
