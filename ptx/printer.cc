#include "ptx/printer.h"

#include <string_view>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace warpline::ptx {
namespace {

class Printer {
 public:
  explicit Printer(std::string* out) : out_(out) {}

  void PutModule(const Module& module) {
    absl::StrAppend(out_, ".version ", module.version_major, ".", module.version_minor,
                    "\n.target ");
    PutList(module.targets, [this](const std::string& target) { Put(target); });
    Put("\n");
    if (module.address_size != 0) {
      absl::StrAppend(out_, ".address_size ", module.address_size, "\n");
    }
    for (const auto& item : module.items) {
      std::visit([this](const auto& value) { PutItem(value); }, item);
    }
  }

  void PutInstruction(const Instruction& instruction) {
    if (!instruction.guard.empty()) {
      absl::StrAppend(out_, "@", instruction.guard_negated ? "!" : "", instruction.guard, " ");
    }
    Put(instruction.opcode);
    for (const std::string& modifier : instruction.modifiers) absl::StrAppend(out_, ".", modifier);
    if (!instruction.operands.empty()) {
      Put(" ");
      PutOperands(instruction.operands);
    }
    Put(";");
  }

 private:
  void Put(std::string_view text) { out_->append(text.data(), text.size()); }
  void PutInteger(uint64_t value) { absl::StrAppend(out_, static_cast<int64_t>(value)); }
  void PutFloat32(uint64_t bits) { absl::StrAppendFormat(out_, "0f%08X", bits & 0xffffffffu); }
  void PutFloat64(uint64_t bits) { absl::StrAppendFormat(out_, "0d%016X", bits); }
  void PutOffset(int64_t offset) {
    if (offset == 0) return;
    Put("+");
    PutInteger(static_cast<uint64_t>(offset));
  }

  template <typename List, typename Each>
  void PutList(const List& list, Each each) {
    bool first = true;
    for (const auto& item : list) {
      if (!first) Put(", ");
      first = false;
      each(item);
    }
  }

  void PutOperands(const std::vector<Operand>& operands) {
    PutList(operands, [this](const Operand& operand) { PutOperand(operand); });
  }

  void PutOperand(const Operand& operand) {
    switch (operand.kind) {
      case Operand::Kind::kInteger:
        return PutInteger(operand.value);
      case Operand::Kind::kFloat32:
        return PutFloat32(operand.value);
      case Operand::Kind::kFloat64:
        return PutFloat64(operand.value);
      case Operand::Kind::kVector:
        return PutBracketed("{", operand.elements, "}");
      case Operand::Kind::kList:
        return PutBracketed("(", operand.elements, ")");
      case Operand::Kind::kPair:
        PutOperand(operand.elements[0]);
        Put("|");
        return PutOperand(operand.elements[1]);
      case Operand::Kind::kAddress:
        return PutAddress(operand);
      case Operand::Kind::kElement:
      case Operand::Kind::kName:
        break;
    }
    if (operand.negated) Put("!");
    Put(operand.name);
    if (!operand.component.empty()) absl::StrAppend(out_, ".", operand.component);
    if (operand.kind == Operand::Kind::kElement) {
      absl::StrAppend(out_, "[", operand.offset, "]");
    } else {
      PutOffset(operand.offset);
    }
  }

  void PutBracketed(std::string_view open, const std::vector<Operand>& operands,
                    std::string_view close) {
    Put(open);
    PutOperands(operands);
    Put(close);
  }

  void PutAddress(const Operand& operand) {
    Put("[");
    if (operand.name.empty()) {
      PutInteger(static_cast<uint64_t>(operand.offset));
    } else {
      Put(operand.name);
      PutOffset(operand.offset);
    }
    if (!operand.elements.empty()) {
      Put(", ");
      PutOperands(operand.elements);
    }
    Put("]");
  }

  void PutInit(const Variable& variable) {
    if (variable.init.empty()) return;
    Put(" = ");
    const bool braces = variable.is_array || variable.vector_width > 1;
    if (braces) Put("{");
    PutList(variable.init, [&](const InitElement& element) { PutInitElement(variable, element); });
    if (braces) Put("}");
  }

  void PutInitElement(const Variable& variable, const InitElement& element) {
    switch (element.kind) {
      case InitElement::Kind::kInteger:
        return PutInteger(element.bits);
      case InitElement::Kind::kFloat32:
        return PutFloat32(element.bits);
      case InitElement::Kind::kFloat64:
        return PutFloat64(element.bits);
      case InitElement::Kind::kSymbol:
        break;
    }
    const InitSymbol& symbol = variable.init_symbols[element.symbol];
    if (symbol.mask != 0) absl::StrAppendFormat(out_, "0x%X(", symbol.mask);
    if (symbol.generic) {
      absl::StrAppend(out_, "generic(", symbol.name, ")");
    } else {
      Put(symbol.name);
    }
    PutOffset(static_cast<int64_t>(element.bits));
    if (symbol.mask != 0) Put(")");
  }

  void PutVariable(const Variable& variable) {
    if (!variable.linkage.empty()) absl::StrAppend(out_, ".", variable.linkage, " ");
    absl::StrAppend(out_, ".", variable.space);
    if (variable.managed) Put(" .attribute(.managed)");
    if (!variable.is_pointer) PutAlignment(variable);
    if (variable.vector_width > 1) absl::StrAppend(out_, " .v", variable.vector_width);
    if (!variable.type.empty()) absl::StrAppend(out_, " .", variable.type);
    if (variable.is_pointer) {
      Put(" .ptr");
      if (!variable.pointer_space.empty()) absl::StrAppend(out_, " .", variable.pointer_space);
      PutAlignment(variable);
    }
    absl::StrAppend(out_, " ", variable.name);
    if (variable.register_count != 0) absl::StrAppend(out_, "<", variable.register_count, ">");
    if (variable.is_array) {
      Put("[");
      if (variable.element_count != 0) absl::StrAppend(out_, variable.element_count);
      Put("]");
    }
    PutInit(variable);
  }

  void PutAlignment(const Variable& variable) {
    if (variable.alignment != 0) absl::StrAppend(out_, " .align ", variable.alignment);
  }

  void PutParams(const std::vector<Variable>& params) {
    Put("(");
    PutList(params, [this](const Variable& variable) { PutVariable(variable); });
    Put(")");
  }

  void PutFunction(const Function& function) {
    if (!function.linkage.empty()) absl::StrAppend(out_, ".", function.linkage, " ");
    Put(function.is_entry ? ".entry " : ".func ");
    if (!function.results.empty()) {
      PutParams(function.results);
      Put(" ");
    }
    Put(function.name);
    Put(" ");
    PutParams(function.params);
    for (const Directive& directive : function.directives) {
      absl::StrAppend(out_, "\n.", directive.name);
      if (!directive.text.empty()) absl::StrAppend(out_, " \"", directive.text, "\";");
      if (!directive.values.empty()) Put(" ");
      PutList(directive.values, [this](uint64_t value) { absl::StrAppend(out_, value); });
    }
    if (!function.has_body) return Put(";\n");
    Put("\n{\n");
    for (const Statement& statement : function.body) {
      std::visit([this](const auto& node) { PutNode(node); }, statement.node);
    }
    Put("}\n");
  }

  void PutNode(const Instruction& node) {
    Put("\t");
    PutInstruction(node);
    Put("\n");
  }
  void PutNode(const Label& node) { absl::StrAppend(out_, node.name, ":\n"); }
  void PutNode(const Variable& node) {
    Put("\t");
    PutVariable(node);
    Put(";\n");
  }
  void PutNode(const OpenBlock&) { Put("\t{\n"); }
  void PutNode(const CloseBlock&) { Put("\t}\n"); }
  void PutNode(const Pragma& node) { absl::StrAppend(out_, "\t.pragma \"", node.text, "\";\n"); }
  void PutNode(const TargetList& node) {
    absl::StrAppend(out_, node.label, ": .", node.is_call ? "calltargets" : "branchtargets", " ");
    PutList(node.targets, [this](const std::string& target) { Put(target); });
    Put(";\n");
  }
  void PutNode(const Prototype& node) {
    absl::StrAppend(out_, node.label, ": .callprototype ");
    PutParams(node.results);
    Put(" _ ");
    PutParams(node.params);
    Put(node.noreturn ? " .noreturn;\n" : ";\n");
  }

  void PutItem(const Variable& item) {
    PutVariable(item);
    Put(";\n");
  }
  void PutItem(const Function& item) { PutFunction(item); }
  void PutItem(const Alias& item) {
    absl::StrAppend(out_, ".alias ", item.name, ", ", item.target, ";\n");
  }

  std::string* const out_;
};

}  // namespace

std::string Print(const Module& module) {
  std::string out;
  Printer(&out).PutModule(module);
  return out;
}

std::string Print(const Instruction& instruction) {
  std::string out;
  Printer(&out).PutInstruction(instruction);
  return out;
}

}  // namespace warpline::ptx
