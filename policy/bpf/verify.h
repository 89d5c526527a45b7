// The verifier: decides whether a program can be run, before it runs.
//
// A program that is accepted ends after at most as many steps as it has instructions, reads nothing
// that was not written, and touches the fields of its context, its stack, values of its maps, and
// no other memory. No address gets into a number, a map or the verdict. It makes one pass over the
// instructions in an order in which each comes after all that lead to it, and joins what is known
// where ways meet; so it takes time and memory linear in the length of the program.
//
// That a program has no loops makes such an order exist. The compiler lays blocks out so that some
// jumps lead backwards even where the source has no loop; those are accepted.
//
// Numbers carry no ranges: an address plus anything but a constant is refused, and so nothing
// depends on arithmetic about bounds being right.
#ifndef WARPLINE_POLICY_BPF_VERIFY_H_
#define WARPLINE_POLICY_BPF_VERIFY_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "policy/bpf/host_interface.h"
#include "policy/bpf/instruction.h"
#include "policy/bpf/map.h"

namespace warpline::policy::bpf {

// Accepts the program of a hook, or returns INVALID_ARGUMENT with "pc N: reason" for an instruction
// that is not sound, the same one each time. `maps` are those that its map references number.
// Thread-safe.
absl::Status Verify(absl::Span<const Instruction> code, const Hook& hook,
                    absl::Span<const MapShape> maps, absl::Span<const Helper> helpers);

}  // namespace warpline::policy::bpf

#endif  // WARPLINE_POLICY_BPF_VERIFY_H_
