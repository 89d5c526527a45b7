// Puts a check before each access to memory: whether its address is aligned, and whether all of it
// lies in one allocation or in the block's shared memory. A thread whose access does not ends, and
// leaves a record (guard/records.h). This finds a program's mistakes; what keeps a kernel in its
// arena are the fences, which stand behind the checks.
#ifndef WARPLINE_GUARD_REWRITE_CHECKS_H_
#define WARPLINE_GUARD_REWRITE_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "guard/rewrite/flatten.h"

namespace warpline::guard {

// An access that is checked. Records name it by its number.
struct CheckSite {
  std::string function;
  uint32_t line = 0;      // In the PTX
  std::string statement;  // "st.global.u32 [%rd4], %r1"
  std::string source;  // "saxpy.cu:12" where the PTX says it, "saxpy.cu:12 (math.h:3)" if inlined
  bool writes = false;
};

// Adds checks to a function of the tenant's. Accesses at parameters, constants and declared
// variables are left out: their addresses are known, and the rewriter bounds them. The first site
// that is appended has the number `first_site` + sites->size().
void AddChecks(uint32_t first_site, FlatFunction* function, std::vector<CheckSite>* sites);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_CHECKS_H_
