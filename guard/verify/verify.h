// Proves of guarded PTX, from its text alone, that it reaches no memory outside its arena.
//
// docs/guarded-ptx.md is the contract: Verify() accepts nothing that the page does not allow, and
// refuses whatever it does not recognise. It shares no code with the rewriter that writes such
// text, nor with the parser of PTX. Whoever hands text to ptxas hands it the very bytes that were
// verified:
//
//   if (absl::Status status = Verify(text, {.arena_bits = 36}); !status.ok()) return status;
//   Assemble(text);
//
// The time is linear in the text. The memory is linear in the number of declarations,
// branches and calls. Thread-safe.
#ifndef WARPLINE_GUARD_VERIFY_VERIFY_H_
#define WARPLINE_GUARD_VERIFY_VERIFY_H_

#include <string_view>

#include "absl/status/status.h"
#include "guard/verify/policy.h"

namespace warpline::guard {

// Returns INVALID_ARGUMENT "line N: what is wrong: the line, cut to 200 characters" for text that
// is refused.
absl::Status Verify(std::string_view text, const Policy& policy);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_VERIFY_H_
