// Finds what a function may read before it has written it, and writes zeros there: ptxas and the
// hardware make something else of it in every lane, and another kernel's values are in it.
#ifndef WARPLINE_GUARD_REWRITE_UNWRITTEN_H_
#define WARPLINE_GUARD_REWRITE_UNWRITTEN_H_

#include <vector>

#include "absl/status/status.h"
#include "guard/rewrite/flatten.h"
#include "ptx/ast.h"

namespace warpline::guard {

// `code` is the function's code without prologue. Arguments of which bytes are never written, as
// those between the members of a structure, are completed before their calls. `first` becomes the
// statements that have to stand before the code. INVALID_ARGUMENT, with "line N: ...", where zeros
// would not do.
absl::Status WriteWhatIsRead(const FlatFunction& function, std::vector<ptx::Statement>* code,
                             std::vector<ptx::Statement>* first);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_UNWRITTEN_H_
