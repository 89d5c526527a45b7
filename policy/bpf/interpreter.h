// Runs programs that the verifier has accepted.
#ifndef WARPLINE_POLICY_BPF_INTERPRETER_H_
#define WARPLINE_POLICY_BPF_INTERPRETER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "policy/bpf/host_interface.h"
#include "policy/bpf/instruction.h"
#include "policy/bpf/map.h"

namespace warpline::policy::bpf {

// A program in the form that runs fastest: fields apart, maps and helpers as addresses. Immutable.
class Executable {
 public:
  Executable() = default;  // Of nothing, which does not run.

  // `code` has been accepted by Verify() with these maps and helpers. The maps must outlive it.
  Executable(absl::Span<const Instruction> code, absl::Span<const std::shared_ptr<Map>> maps,
             absl::Span<const Helper> helpers);

  bool empty() const { return steps_.empty(); }

  // What the program returns. Nothing where it is empty, or comes to a step that it cannot take or
  // to the end of its steps, which the verifier rules out. `context` is aligned to 8 and has what
  // the hook's table says.
  //
  // Thread-safe, as far as the helpers are: it writes cells of maps and its own stack. The
  // semantics are those of RFC 9669: division by zero gives 0, a remainder by zero leaves the
  // register, shifts are by the low 6 (5) bits of their operand, and results of 32 bits clear the
  // upper half.
  std::optional<uint64_t> Run(const void* context, void* self) const;

 private:
  struct Step {
    uint8_t opcode = 0;
    uint8_t dst = 0;
    uint8_t src = 0;
    int32_t offset = 0;
    int64_t immediate = 0;  // Of a wide load all 64 bits; of a call the address of the function.
  };

  std::vector<Step> steps_;  // One for each instruction, and one that ends whatever comes there.
};

}  // namespace warpline::policy::bpf

#endif  // WARPLINE_POLICY_BPF_INTERPRETER_H_
