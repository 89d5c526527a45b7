#include "guard/verify/accesses.h"

#include <iterator>

namespace warpline::guard {
namespace {

using Holds = Value::Holds;

constexpr int64_t kMostOffset = int64_t{8} << 20;  // From wlg_at, in space .global
constexpr int64_t kLocalsAlignment = 16;
constexpr int64_t kConstAlignment = 128;

constexpr Refusal kUnaligned = "an access that may not be aligned";

class Checker {
 public:
  Checker(const Access& access, const Operand& address, const Surroundings& here)
      : access_(access),
        address_(address),
        here_(here),
        now_(here.fences.now()),
        hardened_(here.limits.policy.hardened) {}

  Refusal Check() const {
    if (access_.is_matrix && hardened_) return "a matrix whose rows may not be aligned";
    if (access_.is_barrier && hardened_) return "a barrier that any store may break";
    if (access_.is_bulk && hardened_) return "a copy of bytes that may not be aligned";
    switch (access_.space) {
      case Space::kGeneric:
        return CheckGeneric();
      case Space::kGlobal:
        return CheckGlobal();
      case Space::kShared:
        return CheckShared();
      case Space::kLocal:
        return CheckLocal();
      case Space::kParam:
        return CheckParam();
      case Space::kConst:
        break;
    }
    return CheckConst();
  }

 private:
  bool Is(std::string_view name) const { return address_.name == name; }

  // An access at a register that fences have confined to `value`.
  Refusal CheckFenced(const Value& value) const {
    if (access_.bytes > value.bytes) return "a fence for fewer bytes than the access has";
    if (hardened_ && value.alignment % access_.bytes != 0) return kUnaligned;
    return {};
  }

  // An access at a constant offset in a variable.
  Refusal CheckInside(int64_t size, int64_t alignment) const {
    if (address_.value < 0 || access_.bytes > size || address_.value > size - access_.bytes) {
      return "an access beyond the variable";
    }
    const int64_t misalignment = address_.value % access_.bytes + alignment % access_.bytes;
    return hardened_ && misalignment != 0 ? kUnaligned : Refusal();
  }

  Refusal CheckGlobal() const {
    if (!Is("wlg_at") || now_.at.holds != Holds::kInArena || now_.has_shared_leg) {
      return "an address in space .global without its arena fence";
    }
    const bool is_unsized = access_.is_matrix || access_.is_bulk;
    const int64_t most = is_unsized ? 0 : kMostOffset;
    if (address_.value < -most || address_.value > most) return "an offset that is too large";
    if (is_unsized) return {};
    if (hardened_ && address_.value % access_.bytes != 0) return kUnaligned;
    return CheckFenced(now_.at);
  }

  Refusal CheckGeneric() const {
    if (!Is("wlg_at") || address_.value != 0 || now_.at.holds != Holds::kInArena ||
        !now_.has_shared_leg || now_.has_local_leg != (here_.limits.locals != 0)) {
      return "a generic address without its arena fence and legs";
    }
    return CheckFenced(now_.at);
  }

  Refusal CheckShared() const {
    const Name* const name = here_.scope.Find(address_.name);
    if (name == nullptr) return "an address that is not declared";
    const bool is_variable = name->kind == Name::Kind::kShared;
    const bool is_register =
        name->kind == Name::Kind::kRegister && (IsInteger32(name->type) || IsInteger64(name->type));
    if (!is_variable && !is_register) return "not an address in shared memory";
    if (!hardened_) return {};
    if (is_variable) return CheckInside(name->bytes, name->alignment);
    if (const Value* const group = GroupOf(address_.name); group != nullptr) {
      return CheckInGroup(*group);
    }
    if (!Is("wlg_s") || address_.value != 0 || now_.s.holds != Holds::kShared) {
      return "an address in shared memory without its fence";
    }
    return CheckFenced(now_.s);
  }

  const Value* GroupOf(std::string_view name) const {
    constexpr std::string_view kNames[] = {"wlg_g0", "wlg_g1", "wlg_g2", "wlg_g3"};
    static_assert(std::size(kNames) == kGroups);
    for (size_t i = 0; i < kGroups; ++i) {
      if (name == kNames[i]) return &now_.groups[i];
    }
    return nullptr;
  }

  // An access at a distance from the start of what a fence has confined.
  Refusal CheckInGroup(const Value& group) const {
    if (group.holds != Holds::kShared) return "an address in shared memory without its fence";
    if (address_.value < 0 || access_.bytes > group.bytes ||
        address_.value > group.bytes - access_.bytes) {
      return "an access beyond what the fence is for";
    }
    const bool is_aligned =
        address_.value % access_.bytes == 0 && group.alignment % access_.bytes == 0;
    return is_aligned ? Refusal() : kUnaligned;
  }

  Refusal CheckLocal() const {
    if (Is("wlg_at") && address_.value == 0 && now_.at.holds == Holds::kLocal) {
      return CheckFenced(now_.at);
    }
    const bool is_start = (Is("wlg_locals") && here_.scope.Find(address_.name) != nullptr) ||
                          (Is("wlg_local") && here_.fences.prologue().local);
    if (!is_start) return "an address in local memory without its fence";
    return CheckInside(here_.limits.locals, kLocalsAlignment);
  }

  Refusal CheckParam() const {
    if (Is("wlg_at") && address_.value == 0 && now_.at.holds == Holds::kParameters) {
      return access_.writes ? "a parameter is written" : CheckFenced(now_.at);
    }
    const Name* const name = IsGuardName(address_.name) ? nullptr : here_.scope.Find(address_.name);
    if (name == nullptr) return "an address of a parameter without its fence";
    switch (name->kind) {
      case Name::Kind::kEntryParameter:
      case Name::Kind::kFunctionParameter:
        if (access_.writes) return "a parameter is written";
        break;
      case Name::Kind::kResult:
      case Name::Kind::kBodyParameter:
        break;
      default:
        return "not a parameter";
    }
    return CheckInside(name->bytes, name->alignment);
  }

  Refusal CheckConst() const {
    if (Is("wlg_at") && address_.value == 0 && now_.at.holds == Holds::kConstants) {
      return CheckFenced(now_.at);
    }
    if (!Is("wlg_const")) return "an address of a constant without its fence";
    return CheckInside(here_.limits.constants, kConstAlignment);
  }

  const Access& access_;
  const Operand& address_;
  const Surroundings& here_;
  const GuardState& now_;
  const bool hardened_;
};

}  // namespace

Refusal CheckAccess(const Access& access, const Operand& address, const Surroundings& here) {
  return Checker(access, address, here).Check();
}

}  // namespace warpline::guard
