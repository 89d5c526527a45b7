// What a worker has to know of a guarded module besides its code, as bytes.
//
// The bytes come from the rewriter's stage, which has parsed a tenant's text and may have been
// taken over: whoever reads them takes nothing from them that could lead outside the module's own
// variables.
#ifndef WARPLINE_SERVER_COMPILER_LAYOUT_FORMAT_H_
#define WARPLINE_SERVER_COMPILER_LAYOUT_FORMAT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "guard/guard.h"

namespace warpline::compiler {

// All of `guarded` but for its text, the image of its constants and the tables by name.
std::string LayoutBytes(const guard::GuardedText& guarded);

// The reverse. INVALID_ARGUMENT for bytes that LayoutBytes() does not write, and for a layout that
// contradicts itself: of variables outside their block, of an image that is larger than it, of
// relocations outside the image; of names that are longer than PTX's (16 KiB), or of more than
// 65,536 kernels, variables or refusals. What is for people has 4 KiB.
absl::StatusOr<guard::GuardedText> ParseLayout(std::string_view bytes);

}  // namespace warpline::compiler

#endif  // WARPLINE_SERVER_COMPILER_LAYOUT_FORMAT_H_
