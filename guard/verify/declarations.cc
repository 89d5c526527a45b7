#include "guard/verify/declarations.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"

namespace warpline::guard {
namespace {

constexpr std::pair<std::string_view, int64_t> kTypes[] = {
    {"b8", 1},  {"u8", 1},  {"s8", 1},  {"b16", 2},  {"u16", 2},   {"s16", 2},
    {"b32", 4}, {"u32", 4}, {"s32", 4}, {"b64", 8},  {"u64", 8},   {"s64", 8},
    {"f16", 2}, {"f32", 4}, {"f64", 8}, {"pred", 1}, {"f16x2", 4}, {"b128", 16},
};

constexpr int64_t kMostThreads = 1024;  // Of a block

constexpr std::string_view kSpaces[] = {"reg", "param", "shared", "local", "const"};

// A directive of functions and how many numbers follow it.
struct Directive {
  std::string_view name;
  int least;
  int most;
  bool is_threads = false;  // Of a block, in the direction of x first
};
constexpr Directive kDirectives[] = {
    {".maxntid", 1, 3, true},   {".reqntid", 1, 3, true},     {".minnctapersm", 1, 1},
    {".maxnreg", 1, 1},         {".reqnctapercluster", 1, 3}, {".maxclusterrank", 1, 1},
    {".explicitcluster", 0, 0},
};

bool IsPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

std::string_view ReadLinkage(Cursor* cursor) {
  if (cursor->Skip(".visible ")) return "visible";
  if (cursor->Skip(".weak ")) return "weak";
  if (cursor->Skip(".extern ")) return "extern";
  return {};
}

Refusal ReadParameters(Cursor* cursor, std::vector<Variable>* parameters) {
  if (!cursor->Skip("(")) return "a list of parameters is missing";
  if (cursor->Skip(")")) return {};
  do {
    Variable& variable = parameters->emplace_back();
    if (Refusal refusal = ReadVariable(cursor, &variable); !refusal.empty()) return refusal;
    if (variable.space != "param" || !variable.linkage.empty() || variable.type == "pred") {
      return "a parameter that is not plainly in space .param";
    }
    if (variable.is_array && variable.elements == 0) return "a parameter without a size";
  } while (cursor->Skip(", "));
  return cursor->Skip(")") ? Refusal() : "a malformed list of parameters";
}

bool SameShapes(const std::vector<Variable>& a, const std::vector<Variable>& b) {
  return absl::c_equal(a, b, [](const Variable& x, const Variable& y) {
    return x.type == y.type && x.alignment == y.alignment && x.is_array == y.is_array &&
           x.elements == y.elements && IsGuardName(x.name) == IsGuardName(y.name);
  });
}

}  // namespace

int64_t TypeBytes(std::string_view type) {
  for (const auto& [name, bytes] : kTypes) {
    if (type == name) return bytes;
  }
  return 0;
}

int64_t Variable::Bytes() const { return TypeBytes(type) * elements; }

int64_t Variable::Alignment() const { return alignment != 0 ? alignment : TypeBytes(type); }

Refusal ReadVariable(Cursor* cursor, Variable* variable) {
  variable->linkage = ReadLinkage(cursor);
  if (!cursor->Skip(".") || !cursor->Word(&variable->space) ||
      !absl::c_linear_search(kSpaces, variable->space)) {
    return "not a declaration in a space that is allowed";
  }
  if (cursor->Skip(" .align ") &&
      !(cursor->Integer(&variable->alignment) && IsPowerOfTwo(variable->alignment) &&
        variable->alignment <= kMostVariableBytes)) {
    return "an alignment that is not a power of two";
  }
  if (!cursor->Skip(" .") || !cursor->Word(&variable->type) || TypeBytes(variable->type) == 0) {
    return "not a type that may be declared";
  }
  if (!cursor->Skip(" ") || !cursor->Name(&variable->name)) return "a malformed declaration";
  if (cursor->Skip("<")) {
    if (variable->space != "reg" || !cursor->Integer(&variable->registers) ||
        variable->registers < 1 || variable->registers > kMostRegisters || !cursor->Skip(">")) {
      return "a malformed number of registers";
    }
  } else if (cursor->Skip("[")) {
    variable->is_array = true;
    variable->elements = 0;
    if (cursor->Skip("]")) return {};
    if (!cursor->Integer(&variable->elements) || variable->elements < 1 ||
        variable->elements > kMostVariableBytes / TypeBytes(variable->type) || !cursor->Skip("]")) {
      return "a malformed number of elements";
    }
  }
  return {};
}

bool IsHead(std::string_view line) {
  Cursor cursor(line);
  ReadLinkage(&cursor);
  return cursor.Skip(".entry ") || cursor.Skip(".func ");
}

Refusal ReadHead(std::string_view line, Head* head) {
  Cursor cursor(line);
  head->linkage = ReadLinkage(&cursor);
  if (head->linkage == "extern") return "a function that is .extern";
  head->is_entry = cursor.Skip(".entry ");
  if (!head->is_entry && !cursor.Skip(".func ")) return "not a function";
  if (cursor.Sees('(')) {
    if (head->is_entry) return "an entry with results";
    if (Refusal refusal = ReadParameters(&cursor, &head->results); !refusal.empty()) return refusal;
    if (!cursor.Skip(" ")) return "a malformed function";
  }
  if (!cursor.Name(&head->name) || !cursor.Skip(" ")) return "a malformed function";
  if (Refusal refusal = CheckFunctionName(head->name); !refusal.empty()) return refusal;
  if (Refusal refusal = ReadParameters(&cursor, &head->parameters); !refusal.empty()) {
    return refusal;
  }
  head->is_prototype = cursor.Skip(";");
  return cursor.AtEnd() ? Refusal() : "something follows the parameters";
}

bool SameSignature(const Head& a, const Head& b) {
  return a.is_entry == b.is_entry && SameShapes(a.results, b.results) &&
         SameShapes(a.parameters, b.parameters);
}

Refusal MeasureParameters(absl::Span<const Variable> parameters, int64_t* bytes) {
  *bytes = 0;
  for (const Variable& parameter : parameters) {
    const int64_t alignment = parameter.Alignment();
    *bytes = (*bytes + alignment - 1) / alignment * alignment + parameter.Bytes();
    if (*bytes > kMostParameterBytes) return "too many bytes of parameters";
  }
  return {};
}

Refusal CheckDirective(std::string_view line) {
  Cursor cursor(line);
  std::string_view name;
  const bool named = cursor.Skip(".") && cursor.Word(&name);
  for (const Directive& directive : kDirectives) {
    if (!named || name != directive.name.substr(1)) continue;
    int64_t value = 0, row = 0;
    int count = 0;
    while (cursor.Skip(count == 0 ? " " : ", ")) {
      if (!cursor.Count(&value)) return "a malformed number";
      if (count == 0) row = value;
      ++count;
    }
    const bool fits = count >= directive.least && count <= directive.most && cursor.AtEnd() &&
                      (!directive.is_threads || row <= kMostThreads);
    return fits ? Refusal() : "a directive with the wrong numbers";
  }
  return "a directive that is not allowed";
}

bool SaysOneThreadWide(std::string_view line) {
  Cursor cursor(line);
  int64_t threads = 0;
  return (cursor.Skip(".maxntid ") || cursor.Skip(".reqntid ")) && cursor.Count(&threads) &&
         threads <= 1;
}

}  // namespace warpline::guard
