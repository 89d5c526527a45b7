#include "policy/bpf/verify.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "policy/bpf/flow.h"
#include "policy/bpf/machine_state.h"

namespace warpline::policy::bpf {
namespace {

// Farther than anything that has an address is large, so that sums of offsets do not overflow.
constexpr int64_t kMostOffset = 1 << 20;

std::string Register(int number) { return absl::StrCat("r", number); }

// One pass over one program.
class Verifier {
 public:
  Verifier(absl::Span<const Instruction> code, const Hook& hook, absl::Span<const MapShape> maps,
           absl::Span<const Helper> helpers)
      : code_(code), hook_(hook), maps_(maps), helpers_(helpers), known_(code.size()) {}

  absl::Status Run() {
    const absl::StatusOr<std::vector<size_t>> order = OrderOf(code_);
    if (!order.ok()) return order.status();
    known_[0] = std::make_unique<MachineState>(MachineState::AtEntry());
    for (const size_t pc : *order) {
      pc_ = pc;
      state_ = std::move(known_[pc]);
      if (const absl::Status done = Step(code_[pc]); !done.ok()) return done;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Refused(absl::string_view reason) const { return RefusedAt(pc_, reason); }

  absl::Status Step(const Instruction& instruction) {
    const Shape shape = kShapes[instruction.opcode];
    const bool is_branch = shape == Shape::kBranchImmediate || shape == Shape::kBranchRegister;
    if (is_branch) return Branch(instruction, shape);
    absl::Status done = Effect(instruction, shape);
    if (!done.ok()) return done;
    const Successors successors = SuccessorsOf(code_, pc_);
    if (successors.target != Successors::kNone) Lead(std::move(state_), successors.target);
    if (successors.next != Successors::kNone) Lead(std::move(state_), successors.next);
    return done;
  }

  // What an instruction that is no branch does to the state.
  absl::Status Effect(const Instruction& instruction, Shape shape) {
    switch (shape) {
      case Shape::kAluImmediate:
        return AluImmediate(instruction);
      case Shape::kAluRegister:
        return AluRegister(instruction);
      case Shape::kNegate:
      case Shape::kByteSwap:
        return SetScalar(instruction.dst(), NeedScalar(instruction.dst()));
      case Shape::kLoad:
        return Load(instruction);
      case Shape::kStoreImmediate:
        return Store(instruction, kAnyScalar);
      case Shape::kStoreRegister: {
        absl::Status there = NeedWritten(instruction.src());
        return there.ok() ? Store(instruction, state_->reg(instruction.src())) : there;
      }
      case Shape::kWide:
        return Wide(instruction);
      case Shape::kCall:
        return Call(instruction);
      case Shape::kExit:
        return Exit();
      default:
        return absl::OkStatus();  // A jump; OrderOf() has refused what is not known.
    }
  }

  // Another way to `pc` on which `state` holds.
  void Lead(std::unique_ptr<MachineState> state, size_t pc) {
    if (known_[pc] == nullptr) {
      known_[pc] = std::move(state);
    } else {
      known_[pc]->JoinWith(*state);
    }
  }

  absl::Status NeedWritten(int number) const {
    switch (state_->reg(number).kind) {
      case Kind::kUnwritten:
        return Refused(Register(number) + " is read, and was not written on every way to here");
      case Kind::kMixed:
        return Refused(Register(number) + " holds different things on different ways to here");
      default:
        return absl::OkStatus();
    }
  }

  absl::Status NeedScalar(int number) const {
    absl::Status there = NeedWritten(number);
    if (!there.ok() || state_->reg(number).IsScalar()) return there;
    return Refused(Register(number) + " is an address, and a number is needed");
  }

  absl::Status NeedWritable(int number) const {
    return number == kFrame ? Refused("r10 cannot be written") : absl::OkStatus();
  }

  // Makes `number` a number, if what was needed for that is there.
  absl::Status SetScalar(int number, absl::Status needed) {
    if (needed.ok()) needed = NeedWritable(number);
    if (needed.ok()) state_->reg(number) = kAnyScalar;
    return needed;
  }

  absl::Status AluImmediate(const Instruction& instruction) {
    const int dst = instruction.dst();
    const int operation = instruction.opcode & 0xf0;
    if (operation == kMov) return SetScalar(dst, absl::OkStatus());
    const bool moves_address = (instruction.opcode & 7) == kAlu64 &&
                               (operation == kAdd || operation == kSub) &&
                               state_->reg(dst).IsReference();
    if (!moves_address) return SetScalar(dst, NeedScalar(dst));
    if (absl::Status writable = NeedWritable(dst); !writable.ok()) return writable;
    Value& address = state_->reg(dst);
    if (address.kind == Kind::kValueOrNull) return MayBeNull(dst);
    if (address.kind == Kind::kMap) return Refused("a map is no address to be added to");
    const int64_t change = instruction.immediate;
    const int64_t offset = address.offset + (operation == kAdd ? change : -change);
    if (offset < -kMostOffset || offset > kMostOffset) {
      return Refused("the address is far outside of what it is an address of");
    }
    address.offset = static_cast<int32_t>(offset);
    return absl::OkStatus();
  }

  absl::Status AluRegister(const Instruction& instruction) {
    const int dst = instruction.dst();
    const bool is_move = (instruction.opcode & 0xf0) == kMov;
    if (is_move && (instruction.opcode & 7) == kAlu64) {
      absl::Status needed = NeedWritten(instruction.src());
      if (needed.ok()) needed = NeedWritable(dst);
      if (needed.ok()) state_->reg(dst) = state_->reg(instruction.src());
      return needed;
    }
    const int operation = instruction.opcode & 0xf0;
    const bool moves_address =
        (operation == kAdd || operation == kSub) &&
        (state_->reg(dst).IsReference() || state_->reg(instruction.src()).IsReference());
    absl::Status needed = is_move ? absl::OkStatus() : NeedWritten(dst);
    if (needed.ok()) needed = NeedWritten(instruction.src());
    if (needed.ok() && moves_address) {
      return Refused("an address is moved by something that is not a constant");
    }
    if (needed.ok() && !is_move) needed = NeedScalar(dst);
    if (needed.ok()) needed = NeedScalar(instruction.src());
    return SetScalar(dst, std::move(needed));
  }

  absl::Status Wide(const Instruction& instruction) {
    if (instruction.src() != kMapReference) {
      return SetScalar(instruction.dst(), absl::OkStatus());
    }
    const auto map = static_cast<uint32_t>(instruction.immediate);
    if (map >= maps_.size() || code_[pc_ + 1].immediate != 0) {
      return Refused("there is no such map");
    }
    absl::Status writable = NeedWritable(instruction.dst());
    if (writable.ok()) {
      state_->reg(instruction.dst()) = {.kind = Kind::kMap, .map = static_cast<uint16_t>(map)};
    }
    return writable;
  }

  absl::Status MayBeNull(int number) const {
    return Refused(Register(number) +
                   " may be null: a look-up's result has to be compared with 0 first");
  }

  // Checks that `bytes` at an address plus an offset can be accessed, whatever it points to.
  absl::Status CheckAccess(int number, int64_t offset, int bytes) const {
    if (absl::Status there = NeedWritten(number); !there.ok()) return there;
    const Value& address = state_->reg(number);
    offset += address.offset;
    const auto outside = [&](absl::string_view of, int64_t begin, int64_t end) {
      if (offset >= begin && offset + bytes <= end) {
        return offset % bytes == 0
                   ? absl::OkStatus()
                   : Refused(absl::StrCat("an access to ", bytes, " bytes at offset ", offset,
                                          " is not aligned"));
      }
      return Refused(
          absl::StrCat("an access to ", bytes, " bytes at offset ", offset, " is outside of ", of));
    };
    switch (address.kind) {
      case Kind::kContext:
        return outside("the context", 0, hook_.context_bytes);
      case Kind::kStack:
        return outside("the stack", -kStackBytes, 0);
      case Kind::kValue:
        return outside("the map's value", 0, int64_t{8} * maps_[address.map].value_cells);
      case Kind::kValueOrNull:
        return MayBeNull(number);
      case Kind::kMap:
        return Refused("a map is reached by helper functions only");
      default:
        return Refused(Register(number) + " is a number, and no address");
    }
  }

  bool IsReadableField(int64_t offset, int bytes) const {
    for (const Field& field : hook_.fields) {
      if (field.readable && offset >= field.offset &&
          offset + bytes <= int64_t{field.offset} + field.bytes) {
        return true;
      }
    }
    return false;
  }

  absl::Status Load(const Instruction& instruction) {
    const int bytes = AccessBytes(instruction.opcode);
    const int src = instruction.src();
    absl::Status checked = CheckAccess(src, instruction.offset, bytes);
    if (checked.ok()) checked = NeedWritable(instruction.dst());
    if (!checked.ok()) return checked;
    const Value& address = state_->reg(src);
    const int offset = address.offset + instruction.offset;
    Value loaded = kAnyScalar;
    if (address.kind == Kind::kContext && !IsReadableField(offset, bytes)) {
      return Refused(absl::StrCat("the context has no field with ", bytes, " bytes at offset ",
                                  offset, " that can be read"));
    }
    if (address.kind == Kind::kStack) loaded = state_->LoadStack(offset, bytes);
    if (loaded.kind == Kind::kUnwritten) {
      return Refused(absl::StrCat("the stack at r10", offset,
                                  " is read, and was not written on every way to here"));
    }
    if (loaded.kind == Kind::kMixed) return Refused("this reads a part of an address");
    state_->reg(instruction.dst()) = loaded;
    return checked;
  }

  absl::Status Store(const Instruction& instruction, const Value& value) {
    const int bytes = AccessBytes(instruction.opcode);
    absl::Status checked = CheckAccess(instruction.dst(), instruction.offset, bytes);
    if (!checked.ok()) return checked;
    const Value& address = state_->reg(instruction.dst());
    if (address.kind == Kind::kContext) return Refused("the context can only be read");
    if (address.kind == Kind::kStack) {
      if (value.IsReference() && bytes != 8) return Refused("this stores a part of an address");
      state_->StoreStack(address.offset + instruction.offset, bytes, value);
      return checked;
    }
    if (value.IsReference()) return Refused("an address cannot be stored in a map");
    if (bytes != 8) return Refused("a map's cells are written as a whole, 8 bytes at a time");
    return checked;
  }

  const Helper* HelperOf(int32_t number) const {
    for (const Helper& helper : helpers_) {
      if (helper.number == number) return &helper;
    }
    return nullptr;
  }

  // `map` is the last map among the arguments before.
  absl::Status CheckArgument(Argument argument, int number, const MapShape* map) const {
    const Value& value = state_->reg(number);
    switch (argument) {
      case Argument::kScalar:
        return NeedScalar(number);
      case Argument::kMap:
        return value.kind == Kind::kMap ? absl::OkStatus()
                                        : Refused(Register(number) + " has to be a map");
      case Argument::kKey: {
        if (value.kind != Kind::kStack || map == nullptr) {
          return Refused(Register(number) + " has to be the address of a key on the stack");
        }
        const auto bytes = static_cast<int>(map->key_bytes);
        if (value.offset < -kStackBytes || value.offset + bytes > 0 ||
            !state_->IsWritten(value.offset, bytes)) {
          return Refused(absl::StrCat(Register(number), " has to be the address of ", bytes,
                                      " bytes of the stack that are written: a key of map ",
                                      map->name));
        }
        return absl::OkStatus();
      }
      case Argument::kNone:
        break;
    }
    return absl::OkStatus();
  }

  absl::Status Call(const Instruction& instruction) {
    const Helper* helper = HelperOf(instruction.immediate);
    if (helper == nullptr) {
      return Refused(absl::StrCat("there is no helper function ", instruction.immediate));
    }
    int number = 1;
    int map = -1;
    for (const Argument argument : helper->arguments) {
      const absl::Status checked = CheckArgument(argument, number, map < 0 ? nullptr : &maps_[map]);
      if (!checked.ok()) return checked;
      if (argument == Argument::kMap) map = state_->reg(number).map;
      ++number;
    }
    Value result = kAnyScalar;
    if (helper->result == Result::kValueOrNull) {
      if (map < 0) {
        return Refused(absl::StrCat("helper function ", std::string(helper->name), " has no map"));
      }
      result = {.kind = Kind::kValueOrNull,
                .map = static_cast<uint16_t>(map),
                .origin = static_cast<uint16_t>(pc_)};
    }
    state_->reg(0) = result;
    for (int i = 1; i <= static_cast<int>(kMostArguments); ++i) state_->reg(i) = {};
    return absl::OkStatus();
  }

  absl::Status Exit() const {
    const absl::Status written = NeedWritten(0);
    if (!written.ok()) return written;
    return state_->reg(0).IsScalar() ? written : Refused("r0 is an address, and not a verdict");
  }

  absl::Status Branch(const Instruction& instruction, Shape shape) {
    const int dst = instruction.dst();
    const int operation = instruction.opcode & 0xf0;
    const Successors successors = SuccessorsOf(code_, pc_);
    auto other = std::make_unique<MachineState>(*state_);
    const Value& value = state_->reg(dst);
    const bool compares_with_zero =
        shape == Shape::kBranchImmediate && instruction.immediate == 0 &&
        (instruction.opcode & 7) == kJmp && (operation == kJeq || operation == kJne);
    if (compares_with_zero && value.kind == Kind::kValueOrNull) {
      const uint16_t origin = value.origin;
      state_->Refine(origin, operation == kJne);
      other->Refine(origin, operation == kJeq);
    } else if (!compares_with_zero || value.kind != Kind::kValue) {
      absl::Status needed = NeedScalar(dst);
      if (needed.ok() && shape == Shape::kBranchRegister) needed = NeedScalar(instruction.src());
      if (!needed.ok()) return needed;
    }
    Lead(std::move(other), successors.target);
    Lead(std::move(state_), successors.next);
    return absl::OkStatus();
  }

  const absl::Span<const Instruction> code_;
  const Hook& hook_;
  const absl::Span<const MapShape> maps_;
  const absl::Span<const Helper> helpers_;

  size_t pc_ = 0;
  std::unique_ptr<MachineState> state_;               // Before the instruction at pc_.
  std::vector<std::unique_ptr<MachineState>> known_;  // Before those that ways lead to.
};

}  // namespace

absl::Status Verify(absl::Span<const Instruction> code, const Hook& hook,
                    absl::Span<const MapShape> maps, absl::Span<const Helper> helpers) {
  return Verifier(code, hook, maps, helpers).Run();
}

}  // namespace warpline::policy::bpf
