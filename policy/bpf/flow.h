// The order in which a program's instructions can run, and the checks that need no knowledge of
// values.
#ifndef WARPLINE_POLICY_BPF_FLOW_H_
#define WARPLINE_POLICY_BPF_FLOW_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "policy/bpf/instruction.h"

namespace warpline::policy::bpf {

// INVALID_ARGUMENT that says "pc N: reason".
absl::Status RefusedAt(size_t pc, absl::string_view reason);

// Where control goes after the instruction at `pc` of a program that OrderOf() accepted.
struct Successors {
  static constexpr size_t kNone = size_t{1} << 32;  // Farther away than any jump leads.
  size_t next = kNone;                              // The instruction behind it.
  size_t target = kNone;                            // Where its jump leads.
};
Successors SuccessorsOf(absl::Span<const Instruction> code, size_t pc);

// The places of all instructions, each behind all that lead to it. A wide load is one instruction.
//
// INVALID_ARGUMENT, "pc N: reason", for an instruction that is not known or has a field set that it
// does not use, a register that does not exist, a jump out of the program or into a wide load, a
// way that has no end, and what cannot be reached. Linear in time and memory, for any bytes.
absl::StatusOr<std::vector<size_t>> OrderOf(absl::Span<const Instruction> code);

}  // namespace warpline::policy::bpf

#endif  // WARPLINE_POLICY_BPF_FLOW_H_
