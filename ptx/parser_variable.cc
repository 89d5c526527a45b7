// Declarations: registers, parameters, variables and their initialisers.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ptx/parser_impl.h"

namespace warpline::ptx {
namespace {

constexpr std::string_view kTypes[] = {
    "b8",   "b16",  "b32",    "b64",    "b128",  "u8",     "u16",        "u32",     "u64",   "s8",
    "s16",  "s32",  "s64",    "f16",    "f16x2", "bf16",   "bf16x2",     "f32",     "f64",   "pred",
    "e4m3", "e5m2", "e4m3x2", "e5m2x2", "tf32",  "texref", "samplerref", "surfref", "f32x2",
};

constexpr uint32_t kMaxRegisterCount = 1u << 24;
constexpr uint64_t kMaxElements = uint64_t{1} << 40;

}  // namespace

bool IsTypeName(std::string_view text) {
  return std::find(std::begin(kTypes), std::end(kTypes), text) != std::end(kTypes);
}

bool Parser::ParseAttribute(Variable* variable) {
  if (!Expect('(')) return false;
  do {
    if (token_.kind != TokenKind::kDotName) return Fail("expected an attribute");
    if (token_.text == "managed") variable->managed = true;
    Advance();
    if (!Accept('(')) continue;
    do {
      uint64_t ignored;
      if (!ParseIntegerConstant(&ignored)) return false;
    } while (Accept(','));
    if (!Expect(')')) return false;
  } while (Accept(','));
  return Expect(')');
}

bool Parser::ParseVariableModifiers(Variable* variable) {
  while (token_.kind == TokenKind::kDotName) {
    const std::string_view text = token_.text;
    if (text == "align") {
      Advance();
      uint64_t alignment;
      if (!ExpectInteger(&alignment)) return false;
      if (alignment == 0 || alignment > 4096 || (alignment & (alignment - 1)) != 0) {
        return Fail("alignment is a power of two up to 4096");
      }
      variable->alignment = static_cast<uint32_t>(alignment);
      continue;
    }
    if (text == "v2" || text == "v4" || text == "v8") {
      variable->vector_width = static_cast<uint32_t>(text[1] - '0');
    } else if (text == "ptr") {
      variable->is_pointer = true;
    } else if (variable->is_pointer &&
               (text == "global" || text == "shared" || text == "const" || text == "local")) {
      variable->pointer_space = std::string(text);
    } else if (text == "attribute") {
      Advance();
      if (!ParseAttribute(variable)) return false;
      continue;
    } else if (IsTypeName(text)) {
      if (!variable->type.empty()) return Fail("more than one type");
      variable->type = std::string(text);
    } else {
      return Fail(absl::StrCat("unexpected '.", std::string(text), "' in a declaration"));
    }
    Advance();
  }
  return true;
}

bool Parser::ParseVariables(std::string linkage, std::string space, bool allow_list,
                            std::vector<Variable>* variables) {
  Variable prefix;
  prefix.linkage = std::move(linkage);
  prefix.space = std::move(space);
  if (prefix.space == "tex") {  // Old spelling of a texture reference.
    prefix.space = "global";
    prefix.type = "texref";
    if (AtDot("u64") || AtDot("u32")) Advance();
  }
  if (!ParseVariableModifiers(&prefix)) return false;
  if (prefix.type.empty()) return Fail("declaration without a type");
  do {
    if (++declarations_ > limits_.declarations) return Fail("too many declarations");
    Variable variable = prefix;
    variable.line.number = token_.line;
    if (!ExpectName(&variable.name)) return false;
    if (AtPunct('<')) {
      Advance();
      uint64_t count;
      if (!ExpectInteger(&count)) return false;
      if (variable.space != "reg" || count == 0 || count > kMaxRegisterCount) {
        return Fail("bad register count");
      }
      variable.register_count = static_cast<uint32_t>(count);
      if (!Expect('>')) return false;
    }
    std::vector<uint64_t> dims;
    if (!ParseDimensions(&variable, &dims)) return false;
    if (AtPunct('=')) {
      Advance();
      if (!ParseInitializer(dims, &variable)) return false;
    }
    variables->push_back(std::move(variable));
  } while (allow_list && Accept(','));
  return true;
}

bool Parser::ParseDimensions(Variable* variable, std::vector<uint64_t>* dims) {
  while (Accept('[')) {
    if (dims->size() >= 8) return Fail("too many dimensions");
    variable->is_array = true;
    uint64_t size = 0;
    if (!AtPunct(']') && !ParseIntegerConstant(&size)) return false;
    if (!Expect(']')) return false;
    if (size == 0 && !dims->empty()) return Fail("only the first dimension may be left out");
    if (size > kMaxElements ||
        __builtin_mul_overflow(variable->element_count, size, &variable->element_count) ||
        variable->element_count > kMaxElements) {
      return Fail("array too large");
    }
    // The other dimensions of `[][4]` still count when an initialiser gives the first.
    if (size == 0) variable->element_count = 1;
    dims->push_back(size);
  }
  if (!dims->empty() && dims->front() == 0) variable->element_count = 0;
  return true;
}

bool Parser::PadInit(uint64_t multiple, Variable* variable) {
  while (variable->init.size() % multiple != 0) {
    if (++init_elements_ > limits_.init_elements) return Fail("initialiser too long");
    variable->init.emplace_back();
  }
  return true;
}

bool Parser::ParseInitializer(const std::vector<uint64_t>& dims, Variable* variable) {
  // A brace of depth d holds strides[d] elements; when it closes, it is padded to that number.
  std::vector<uint64_t> strides(dims.begin(), dims.end());
  if (variable->vector_width > 1) strides.push_back(variable->vector_width);
  if (!strides.empty() && strides.front() == 0) strides.front() = 1;
  for (size_t i = strides.size(); i-- > 1;) strides[i - 1] *= strides[i];
  if (!AtPunct('{')) {
    if (!ParseInitElement(variable)) return false;
  } else {
    size_t depth = 0;
    do {
      if (Accept('{')) {
        if (depth >= strides.size()) return Fail("too many braces");
        if (!PadInit(strides[depth], variable)) return false;
        ++depth;
      } else if (Accept('}')) {
        --depth;
        // The outermost brace may stay short: the missing elements are zero.
        if (depth > 0 && !PadInit(strides[depth], variable)) return false;
        if (depth > 0 && !AtPunct('}') && !Expect(',')) return false;
      } else {
        if (!ParseInitElement(variable)) return false;
        if (!AtPunct('}') && !Expect(',')) return false;
      }
    } while (depth > 0);
  }
  const uint64_t per_element = variable->vector_width;
  if (variable->is_array && variable->element_count == 0) {
    uint64_t row = 1;
    for (size_t i = 1; i < dims.size(); ++i) row *= dims[i];
    const uint64_t elements = (variable->init.size() + per_element - 1) / per_element;
    variable->element_count = (elements + row - 1) / row * row;
  }
  if (variable->init.size() > variable->element_count * per_element) {
    return Fail("more initialisers than elements");
  }
  return true;
}

bool Parser::ParseInitElement(Variable* variable) {
  if (++init_elements_ > limits_.init_elements) return Fail("initialiser too long");
  if (token_.kind == TokenKind::kName && token_.text != "WARP_SZ") {
    return ParseInitSymbol(0, variable);
  }
  // 0xFF00(symbol) is one byte of an address.
  if (token_.kind == TokenKind::kInteger && NextIsPunct('(')) {
    const uint64_t mask = token_.bits;
    Advance();
    Advance();
    return ParseInitSymbol(mask, variable) && Expect(')');
  }
  Constant constant;
  if (!ParseConstant(&constant)) return false;
  InitElement element;
  element.bits = constant.bits;
  element.kind = constant.kind == Constant::Kind::kInteger   ? InitElement::Kind::kInteger
                 : constant.kind == Constant::Kind::kFloat32 ? InitElement::Kind::kFloat32
                                                             : InitElement::Kind::kFloat64;
  variable->init.push_back(element);
  return true;
}

bool Parser::ParseInitSymbol(uint64_t mask, Variable* variable) {
  InitSymbol symbol;
  symbol.mask = mask;
  InitElement element;
  element.kind = InitElement::Kind::kSymbol;
  int64_t offset = 0;
  if (!ExpectName(&symbol.name)) return false;
  if (symbol.name == "generic" && Accept('(')) {
    symbol.generic = true;
    if (!ExpectName(&symbol.name)) return false;
    if ((AtPunct('+') || AtPunct('-')) && !ParseOffset(&offset)) return false;
    if (!Expect(')')) return false;
  }
  if ((AtPunct('+') || AtPunct('-')) && !ParseOffset(&offset)) return false;
  element.bits = static_cast<uint64_t>(offset);
  element.symbol = static_cast<uint32_t>(variable->init_symbols.size());
  variable->init_symbols.push_back(std::move(symbol));
  variable->init.push_back(element);
  return true;
}

}  // namespace warpline::ptx
