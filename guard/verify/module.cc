#include "guard/verify/module.h"

#include <cstdint>
#include <utility>

namespace warpline::guard {
namespace {

constexpr int64_t kGuardWords = 64;        // Bytes of wlg_const that are the guard's
constexpr int64_t kMostConstants = 65536;  // Bytes that a module's constants may have
constexpr int64_t kMostTarget = 999;

}  // namespace

Refusal ModuleReader::Read() {
  if (Refusal refusal = ReadPreamble(); !refusal.empty()) return refusal;
  while (lines_.Next()) {
    if (Refusal refusal = ReadItem(); !refusal.empty()) return refusal;
  }
  if (!lines_.rest().empty()) return "the text does not end with the end of a line";
  for (const auto& [name, head] : prototypes_) {
    if (!module_.definitions.contains(name)) return "a function is declared and not defined";
  }
  return {};
}

Refusal ModuleReader::ReadPreamble() {
  int64_t number = 0;
  lines_.Next();
  Cursor version(line().text);
  if (!version.Skip(".version ") || !version.Count(&number) || !version.Skip(".") ||
      !version.Count(&number) || !version.AtEnd()) {
    return "not a version of PTX";
  }
  lines_.Next();
  Cursor target(line().text);
  if (!target.Skip(".target sm_") || !target.Count(&number) || number > kMostTarget) {
    return "not a target";
  }
  if (!target.Skip("a")) target.Skip("f");
  if (!target.AtEnd()) return "not a single target";
  module_.target = static_cast<int>(number);
  lines_.Next();
  if (line().text != ".address_size 64") return "addresses have 64 bits";
  lines_.Next();
  return ReadConstants();
}

Refusal ModuleReader::ReadConstants() {
  Cursor cursor(line().text);
  Variable variable;
  if (Refusal refusal = ReadVariable(&cursor, &variable); !refusal.empty()) return refusal;
  if (!variable.linkage.empty() || variable.space != "const" || variable.alignment != 128 ||
      variable.type != "b8" || variable.name != "wlg_const" || !variable.is_array ||
      variable.elements < kGuardWords || variable.elements > kMostConstants) {
    return "not the declaration of wlg_const";
  }
  if (!cursor.Skip(" = {")) return "wlg_const has no initialiser";
  int64_t count = 0;
  do {
    int64_t value = 0;
    if (!cursor.Integer(&value) || value < -128 || value > 255) return "not a byte";
    ++count;
  } while (cursor.Skip(", "));
  if (count > variable.elements) return "too many bytes";
  if (!cursor.Skip("};") || !cursor.AtEnd()) return "something follows the bytes";
  module_.constants = variable.elements;
  module_.names.Declare(variable.name, variable.Named(Name::Kind::kConst));
  return {};
}

Refusal ModuleReader::ReadItem() {
  if (!IsHead(line().text)) return ReadShared();
  Head head;
  if (Refusal refusal = ReadHead(line().text, &head); !refusal.empty()) return refusal;
  return head.is_prototype ? ReadPrototype(head) : ReadDefinition(std::move(head));
}

Refusal ModuleReader::ReadShared() {
  Cursor cursor(line().text);
  Variable variable;
  if (Refusal refusal = ReadVariable(&cursor, &variable); !refusal.empty()) return refusal;
  if (!cursor.Skip(";") || !cursor.AtEnd()) return "something follows the declaration";
  if (variable.space != "shared" || variable.type == "pred") {
    return "not a variable that a module may have";
  }
  if ((variable.linkage == "extern") != (variable.Bytes() == 0)) {
    return "an array in shared memory is .extern, or it has a size";
  }
  if (Refusal refusal = CheckTenantName(variable.name); !refusal.empty()) return refusal;
  const bool is_new = module_.names.Declare(variable.name, variable.Named(Name::Kind::kShared));
  return is_new ? Refusal() : "a name is declared twice";
}

Refusal ModuleReader::ReadPrototype(const Head& head) {
  prototypes_.emplace(head.name, head);
  const bool is_new = module_.names.Declare(head.name, {.kind = Name::Kind::kFunction});
  return is_new ? Refusal() : "a name is declared twice";
}

Refusal ModuleReader::ReadDefinition(Head head) {
  const auto prototype = prototypes_.find(head.name);
  if (prototype == prototypes_.end()) {
    if (!module_.names.Declare(head.name, {.kind = Name::Kind::kFunction})) {
      return "a name is declared twice";
    }
  } else if (!SameSignature(prototype->second, head)) {
    return "a function is not what its prototype says";
  }
  if (!module_.definitions.emplace(head.name, module_.functions.size()).second) {
    return "a function is defined twice";
  }
  Function& function = module_.functions.emplace_back();
  function.head = std::move(head);
  function.line = line();
  while (lines_.Next()) {
    if (line().text == "{") return ReadBody(&function);
    if (Refusal refusal = CheckDirective(line().text); !refusal.empty()) return refusal;
    function.is_one_wide = function.is_one_wide || SaysOneThreadWide(line().text);
  }
  return "a function without a body";
}

Refusal ModuleReader::ReadBody(Function* function) {
  function->body_line = line().number;
  const std::string_view start = lines_.rest();
  while (lines_.Next()) {
    if (line().text == "}") {
      function->body = start.substr(0, static_cast<size_t>(line().text.data() - start.data()));
      return {};
    }
    if (Refusal refusal = NoteLocals(); !refusal.empty()) return refusal;
  }
  return "a body that does not end";
}

// All functions have to know what the entries declare, also those before.
Refusal ModuleReader::NoteLocals() {
  if (!line().text.starts_with("\t.local ")) return {};
  Cursor cursor(line().text.substr(1));
  Variable variable;
  if (Refusal refusal = ReadVariable(&cursor, &variable); !refusal.empty()) return refusal;
  if (module_.locals != 0 && module_.locals != variable.Bytes()) {
    return "wlg_locals of another size than before";
  }
  module_.locals = variable.Bytes();
  return {};
}

}  // namespace warpline::guard
