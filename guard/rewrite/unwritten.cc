#include "guard/rewrite/unwritten.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "guard/rewrite/statements.h"
#include "guard/rewrite/words.h"
#include "ptx/instruction_set.h"
#include "ptx/types.h"

namespace warpline::guard {
namespace {

using ptx::Instruction;
using ptx::Operand;
using Bits = std::vector<bool>;

// Follows the code once, in the order of its text. What is found to be read too early counts as
// written from the start from then on.
class Finder {
 public:
  Finder(const FlatFunction& function, std::vector<ptx::Statement>* code)
      : function_(function), code_(*code) {}

  absl::Status Run(std::vector<ptx::Statement>* first) {
    NoteStores();
    std::vector<ptx::Statement> result;
    result.reserve(code_.size());
    for (ptx::Statement& statement : code_) {
      line_ = statement.line;
      if (const auto* const label = std::get_if<ptx::Label>(&statement.node)) {
        PlaceLabel(label->name);
      } else if (const auto* const instruction = std::get_if<Instruction>(&statement.node)) {
        if (absl::Status status = Follow(*instruction, &result); !status.ok()) return status;
      }
      result.push_back(std::move(statement));
    }
    code_ = std::move(result);
    if (reachable_) ReadResults();
    return WriteZeros(first);
  }

 private:
  // A register, or one byte of a parameter.
  using Thing = std::pair<std::string, int64_t>;
  static constexpr int64_t kRegister = -1;

  absl::Status Refuse(const std::string& why) const {
    return absl::InvalidArgumentError(absl::StrCat("line ", line_.number, ": ", why));
  }

  size_t NumberOf(const Thing& thing) {
    const auto [at, is_new] = numbers_.try_emplace(thing, things_.size());
    if (is_new) {
      things_.push_back(thing);
      early_.push_back(false);
    }
    return at->second;
  }
  bool Has(size_t number) const {
    return !reachable_ || early_[number] || (number < now_.size() && now_[number]);
  }
  void Set(const Thing& thing, bool written) {
    const size_t number = NumberOf(thing);
    if (number >= now_.size()) now_.resize(number + 1);
    now_[number] = written;
  }

  // The parameters of calls that are stored to somewhere, byte by byte.
  void NoteStores() {
    for (const ptx::Statement& statement : code_) {
      const auto* const store = std::get_if<Instruction>(&statement.node);
      if (store == nullptr || store->opcode != "st") continue;
      ptx::Description what;
      if (ptx::Describe(*store, &what) != ptx::Verdict::kKnown) continue;
      const ptx::MemoryAccess& access = what.accesses()[0];
      if (access.space != ptx::StateSpace::kParam) continue;
      const Operand& address = store->operands[access.operand];
      for (uint64_t i = 0; i < access.bytes; ++i) {
        stored_[{address.name, address.offset + static_cast<int64_t>(i)}] = true;
      }
    }
  }

  static bool IsGuards(const std::string& name) { return name.starts_with(kReservedPrefix); }

  void Read(const std::string& name) {
    const Symbol* const symbol = IsGuards(name) ? nullptr : function_.Find(name);
    if (symbol == nullptr || symbol->kind != Symbol::Kind::kRegister) return;
    const size_t number = NumberOf({name, kRegister});
    if (!Has(number)) early_[number] = true;
  }
  void Read(const Operand& operand) {
    if (!operand.name.empty()) Read(operand.name);
    for (const Operand& element : operand.elements) Read(element);
  }
  void Write(const Operand& operand) {
    // The guard's own are written before each use.
    if (operand.kind == Operand::Kind::kName && operand.name != "_" && !IsGuards(operand.name)) {
      Set({operand.name, kRegister}, true);
    }
    for (const Operand& element : operand.elements) Write(element);
  }

  void ReadResults() {
    for (const ptx::Variable& result : function_.results) {
      const uint64_t bytes = ptx::VariableBytes(result);
      for (uint64_t i = 0; i < bytes; ++i) {
        const size_t number = NumberOf({result.name, static_cast<int64_t>(i)});
        if (!Has(number)) early_[number] = true;
      }
    }
  }

  absl::Status Follow(const Instruction& instruction, std::vector<ptx::Statement>* before) {
    if (!instruction.guard.empty()) Read(instruction.guard);
    const bool always = instruction.guard.empty();
    if (instruction.opcode == "bra") {
      const absl::Status status = BranchTo(instruction.operands[0].name);
      if (always) reachable_ = false;
      return status;
    }
    if (instruction.opcode == "call") return FollowCall(instruction, before);
    ptx::Description what;
    if (ptx::Describe(instruction, &what) != ptx::Verdict::kKnown) {
      return Refuse("an instruction that the guard does not know");
    }
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      if (what.roles()[i] != ptx::Role::kDestination) Read(instruction.operands[i]);
    }
    if (absl::Status status = FollowParameter(what, instruction); !status.ok()) return status;
    for (size_t i = 0; always && i < instruction.operands.size(); ++i) {
      if (what.roles()[i] == ptx::Role::kDestination) Write(instruction.operands[i]);
    }
    if (instruction.opcode == "ret") ReadResults();
    if (always && (instruction.opcode == "ret" || instruction.opcode == "exit")) {
      reachable_ = false;
    }
    return absl::OkStatus();
  }

  absl::Status FollowParameter(const ptx::Description& what, const Instruction& instruction) {
    if (what.accesses().empty() || what.accesses()[0].space != ptx::StateSpace::kParam) {
      return absl::OkStatus();
    }
    const ptx::MemoryAccess& access = what.accesses()[0];
    const Operand& address = instruction.operands[access.operand];
    const Symbol* const symbol = function_.Find(address.name);
    if (symbol == nullptr ||
        (symbol->kind != Symbol::Kind::kResult && symbol->kind != Symbol::Kind::kArgument)) {
      return absl::OkStatus();
    }
    for (uint64_t i = 0; i < access.bytes; ++i) {
      const Thing byte = {address.name, address.offset + static_cast<int64_t>(i)};
      if (access.kind != ptx::AccessKind::kRead) {
        if (instruction.guard.empty()) Set(byte, true);
      } else if (!Has(NumberOf(byte))) {
        return Refuse(absl::StrCat("'", address.name, "' may be read before it is written"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status FollowCall(const Instruction& call, std::vector<ptx::Statement>* before) {
    const bool has_results = call.operands[0].kind == Operand::Kind::kList;
    // What is completed stands before the statement that passes on the locals, which is the last.
    std::vector<ptx::Statement> last;
    for (size_t i = has_results ? 1 : 0; i < call.operands.size(); ++i) {
      for (const Operand& argument : call.operands[i].elements) {
        if (IsGuards(argument.name)) {
          last.push_back(std::move(before->back()));
          before->pop_back();
          continue;
        }
        const absl::Status status = Complete(argument.name, before);
        if (!status.ok()) return status;
      }
    }
    for (ptx::Statement& statement : last) before->push_back(std::move(statement));
    // The callee may have changed them.
    for (size_t i = has_results ? 1 : 0; i < call.operands.size(); ++i) {
      for (const Operand& argument : call.operands[i].elements) {
        const Symbol* const symbol = function_.Find(argument.name);
        for (uint64_t byte = 0; symbol != nullptr && byte < symbol->bytes; ++byte) {
          Set({argument.name, static_cast<int64_t>(byte)}, false);
        }
      }
    }
    if (!has_results || !call.guard.empty()) return absl::OkStatus();
    for (const Operand& result : call.operands[0].elements) {
      const Symbol* const symbol = function_.Find(result.name);
      for (uint64_t i = 0; symbol != nullptr && i < symbol->bytes; ++i) {
        Set({result.name, static_cast<int64_t>(i)}, true);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Complete(const std::string& argument, std::vector<ptx::Statement>* before) {
    const Symbol* const symbol = function_.Find(argument);
    if (symbol == nullptr) return absl::OkStatus();
    for (uint64_t i = 0; i < symbol->bytes; ++i) {
      const Thing byte = {argument, static_cast<int64_t>(i)};
      if (!Has(NumberOf(byte))) {
        if (stored_.contains(byte)) {
          return Refuse(absl::StrCat("'", argument, "' may be passed before it is written"));
        }
        before->push_back(
            {Make("st.param.b8", {Address(argument, byte.second), Number(0)}), line_});
      }
    }
    return absl::OkStatus();
  }

  void PlaceLabel(const std::string& label) {
    const auto ahead = ahead_.find(label);
    if (ahead != ahead_.end()) {
      if (reachable_) {
        Intersect(ahead->second, &now_);
      } else {
        now_ = std::move(ahead->second);
      }
      ahead_.erase(ahead);
    } else if (!reachable_) {
      now_.clear();
    }
    // As the verifier does: what is passed is written in the same run of statements.
    for (size_t i = 0; i < now_.size(); ++i) {
      if (now_[i] && things_[i].second != kRegister &&
          function_.Find(things_[i].first)->kind == Symbol::Kind::kArgument) {
        now_[i] = false;
      }
    }
    reachable_ = true;
    behind_[label] = now_;
  }

  absl::Status BranchTo(const std::string& label) {
    if (!reachable_) return absl::OkStatus();
    if (const auto behind = behind_.find(label); behind != behind_.end()) {
      for (size_t i = 0; i < behind->second.size(); ++i) {
        if (!behind->second[i] || Has(i)) continue;
        early_[i] = true;
      }
      return absl::OkStatus();
    }
    const auto [ahead, is_new] = ahead_.try_emplace(label, now_);
    if (!is_new) Intersect(now_, &ahead->second);
    return absl::OkStatus();
  }

  static void Intersect(const Bits& others, Bits* bits) {
    bits->resize(std::min(bits->size(), others.size()));
    for (size_t i = 0; i < bits->size(); ++i) (*bits)[i] = (*bits)[i] && others[i];
  }

  absl::Status WriteZeros(std::vector<ptx::Statement>* first) const {
    for (size_t i = 0; i < things_.size(); ++i) {
      if (!early_[i]) continue;
      const auto& [name, offset] = things_[i];
      if (offset != kRegister) {
        first->push_back({Make("st.param.b8", {Address(name, offset), Number(0)}), {}});
        continue;
      }
      // What the rewriter adds to the tenant's registers has 32 bits.
      const Symbol* const symbol = function_.Find(name);
      const std::string type = symbol == nullptr ? "b32" : symbol->type;
      const int bytes = ptx::TypeBytes(type);
      if (type != "pred" && bytes != 2 && bytes != 4 && bytes != 8) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", name, "', of type ", type, ", may be read before it is written"));
      }
      const std::string move = type == "pred" ? "mov.pred" : absl::StrCat("mov.b", 8 * bytes);
      first->push_back({Make(move, {Name(name), Number(0)}), {}});
    }
    return absl::OkStatus();
  }

  const FlatFunction& function_;
  std::vector<ptx::Statement>& code_;
  ptx::SourceLine line_;
  std::map<Thing, size_t> numbers_;
  std::vector<Thing> things_;  // By number
  std::vector<bool> early_;    // Those that are read too early
  std::map<Thing, bool> stored_;
  Bits now_;
  bool reachable_ = true;
  std::unordered_map<std::string, Bits> ahead_;
  std::unordered_map<std::string, Bits> behind_;
};

}  // namespace

absl::Status WriteWhatIsRead(const FlatFunction& function, std::vector<ptx::Statement>* code,
                             std::vector<ptx::Statement>* first) {
  return Finder(function, code).Run(first);
}

}  // namespace warpline::guard
