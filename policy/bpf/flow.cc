#include "policy/bpf/flow.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace warpline::policy::bpf {
namespace {

bool IsBranch(Shape shape) {
  return shape == Shape::kBranchImmediate || shape == Shape::kBranchRegister;
}

// The reason to refuse an instruction by itself; empty for none.
std::string FaultOf(const Instruction& instruction) {
  const Shape shape = kShapes[instruction.opcode];
  if (shape == Shape::kUnknown) {
    return absl::StrFormat("opcode 0x%02x is not known", instruction.opcode);
  }
  if (instruction.opcode == kCall && instruction.src() != 0) {
    return "only helper functions can be called; what a policy calls of its own has to be inlined";
  }
  const FieldsUsed used = FieldsOf(shape);
  if ((!used.dst && instruction.dst() != 0) || (!used.src && instruction.src() != 0) ||
      (!used.offset && instruction.offset != 0) ||
      (!used.immediate && instruction.immediate != 0)) {
    return "a field is set that this instruction does not use";
  }
  if (instruction.dst() >= kRegisters || instruction.src() >= kRegisters) {
    return "there is no such register";
  }
  const int32_t bits = instruction.immediate;
  if (shape == Shape::kByteSwap && bits != 16 && bits != 32 && bits != 64) {
    return "bytes are swapped within 16, 32 or 64 bits";
  }
  return "";
}

absl::Status CheckWide(absl::Span<const Instruction> code, size_t pc) {
  if (pc + 1 == code.size()) return RefusedAt(pc, "the second half of a wide load is missing");
  const Instruction& second = code[pc + 1];
  if (second.opcode != 0 || second.registers != 0 || second.offset != 0) {
    return RefusedAt(pc, "the second half of a wide load is something else");
  }
  if (code[pc].src() > kMapReference) return RefusedAt(pc, "a wide load of an unknown kind");
  return absl::OkStatus();
}

// A depth-first search without recursion. `order` gets the instructions in the order in which they
// are left, which is the opposite of the one that is wanted.
class Search {
 public:
  explicit Search(absl::Span<const Instruction> code) : code_(code), marks_(code.size()) {}

  absl::Status Run() {
    Enter(0);
    while (!way_.empty()) {
      const size_t pc = way_.back();
      const Successors successors = SuccessorsOf(code_, pc);
      // The jump is followed first, so that what comes next in the program is first in the order.
      const size_t step = marks_[pc] == kEntered ? successors.target : successors.next;
      if (marks_[pc] == kBothTaken) {
        marks_[pc] = kLeft;
        order_.push_back(pc);
        way_.pop_back();
        continue;
      }
      marks_[pc] = marks_[pc] == kEntered ? kJumpTaken : kBothTaken;
      if (step == Successors::kNone || marks_[step] == kLeft) continue;
      if (marks_[step] != kNew) {
        return RefusedAt(pc,
                         absl::StrCat("this leads back to pc ", step, ", and loops are refused"));
      }
      Enter(step);
    }
    return absl::OkStatus();
  }

  bool WasReached(size_t pc) const { return marks_[pc] != kNew; }

  std::vector<size_t> TakeOrder() {
    std::reverse(order_.begin(), order_.end());
    return std::move(order_);
  }

 private:
  enum Mark : uint8_t { kNew, kEntered, kJumpTaken, kBothTaken, kLeft };

  void Enter(size_t pc) {
    marks_[pc] = kEntered;
    way_.push_back(pc);
  }

  const absl::Span<const Instruction> code_;
  std::vector<Mark> marks_;
  std::vector<size_t> way_;
  std::vector<size_t> order_;
};

}  // namespace

absl::Status RefusedAt(size_t pc, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat("pc ", pc, ": ", reason));
}

Successors SuccessorsOf(absl::Span<const Instruction> code, size_t pc) {
  const Instruction& instruction = code[pc];
  const Shape shape = kShapes[instruction.opcode];
  Successors successors;
  if (shape == Shape::kExit) return successors;
  if (shape != Shape::kJump) successors.next = pc + (shape == Shape::kWide ? 2 : 1);
  if (shape == Shape::kJump || IsBranch(shape)) {
    successors.target = pc + 1 + static_cast<size_t>(int64_t{instruction.offset});
  }
  return successors;
}

absl::StatusOr<std::vector<size_t>> OrderOf(absl::Span<const Instruction> code) {
  if (code.empty()) return RefusedAt(0, "the program is empty");
  if (code.size() > kMostInstructions) {
    return RefusedAt(kMostInstructions, absl::StrCat("the program has more than ",
                                                     kMostInstructions, " instructions"));
  }
  std::vector<bool> is_half(code.size());
  for (size_t pc = 0; pc < code.size(); ++pc) {
    if (const std::string fault = FaultOf(code[pc]); !fault.empty()) return RefusedAt(pc, fault);
    if (code[pc].opcode != kWideLoad) continue;
    if (const absl::Status wide = CheckWide(code, pc); !wide.ok()) return wide;
    is_half[++pc] = true;
  }
  for (size_t pc = 0; pc < code.size(); ++pc) {
    if (is_half[pc]) continue;
    const Successors successors = SuccessorsOf(code, pc);
    // A target before the program has wrapped around, and is a large number.
    if (successors.target != Successors::kNone && successors.target >= code.size()) {
      return RefusedAt(pc, "the jump leads out of the program");
    }
    if (successors.target != Successors::kNone && is_half[successors.target]) {
      return RefusedAt(pc, "the jump leads into a wide load");
    }
    if (successors.next != Successors::kNone && successors.next >= code.size()) {
      return RefusedAt(pc, "the program runs past its end");
    }
  }
  Search search(code);
  if (const absl::Status searched = search.Run(); !searched.ok()) return searched;
  for (size_t pc = 0; pc < code.size(); ++pc) {
    if (!is_half[pc] && !search.WasReached(pc)) return RefusedAt(pc, "this cannot be reached");
  }
  return search.TakeOrder();
}

}  // namespace warpline::policy::bpf
