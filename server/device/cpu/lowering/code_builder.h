// Makes the code of one function: instructions in order, the slots of its frame, the first error.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_CODE_BUILDER_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_CODE_BUILDER_H_

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/device/cpu/alu/alu.h"
#include "server/device/cpu/machine/kernel_code.h"
#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

// Methods that return false have recorded an error; callers return at once. Thread-compatible.
class CodeBuilder {
 public:
  // --- Errors, which name the line.
  bool Invalid(std::string_view text);
  bool Unsupported(std::string_view text);
  const absl::Status& status() const { return status_; }

  // --- What holds for the instructions from here on.
  void set_line(uint32_t line) { line_ = line; }
  // A predicate; kNoSlot for none.
  void SetGuard(uint32_t slot, bool negated);

  // --- The frame.
  uint32_t NewSlot(Width width);
  // In front of all slots.
  void ReserveFrame(uint32_t bytes) { frame_bytes_ = bytes; }
  uint32_t frame_bytes() const { return frame_bytes_; }
  // Slots that hold what they are asked for.
  uint32_t Constant(Width width, uint64_t bits);
  uint32_t SpecialSlot(Special special, Width width);
  uint32_t CarrySlot();
  const std::vector<ConstantSlot>& constants() const { return constants_; }
  const std::vector<std::pair<Special, uint32_t>>& specials() const { return specials_; }

  // --- Instructions.
  Op& Emit(OpKind kind);
  Op& EmitAlu(const AluRow& row);
  // One that touches memory in a way of its own.
  Op& EmitHandler(MemoryFn fn);
  // One whose fields are filled in, but for its line and its guard.
  void EmitPrepared(Op op);
  // An operation on slots, by its mnemonic in the ALU table.
  bool EmitNamed(std::string_view mnemonic, uint32_t d, uint32_t a, uint32_t b = kNoSlot,
                 uint32_t c = kNoSlot);
  // A barrier of all lanes of the warp.
  void MeetWholeWarp();
  // Branch targets count from its start.
  std::vector<Op>& ops() { return ops_; }

 private:
  std::vector<Op> ops_;
  std::vector<ConstantSlot> constants_;
  std::vector<std::pair<Special, uint32_t>> specials_;
  uint32_t frame_bytes_ = 0;
  std::map<std::pair<Width, uint64_t>, uint32_t> constant_slots_;
  std::map<Special, uint32_t> special_slots_;
  uint32_t predicate_line_ = kNoSlot;
  uint32_t predicates_in_line_ = 0;
  uint32_t carry_ = kNoSlot;
  absl::Status status_;
  uint32_t line_ = 0;
  uint32_t guard_ = kNoSlot;
  bool guard_negated_ = false;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_CODE_BUILDER_H_
