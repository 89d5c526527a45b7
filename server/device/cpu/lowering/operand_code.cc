#include "server/device/cpu/lowering/operand_code.h"

#include "ptx/types.h"

namespace warpline::cpu {

bool TypeWidth(std::string_view type, Width* width) {
  if (type == "pred") {
    *width = Width::kPred;
    return true;
  }
  switch (ptx::TypeBytes(type)) {
    case 1:
    case 2:
      *width = Width::k16;
      return true;
    case 4:
      *width = Width::k32;
      return true;
    case 8:
      *width = Width::k64;
      return true;
    default:
      return false;
  }
}

Width WidthOf(char code) {
  switch (code) {
    case 'h':
      return Width::k16;
    case 'l':
    case 'd':
      return Width::k64;
    case 'p':
      return Width::kPred;
    default:
      return Width::k32;
  }
}

char CodeOf(Width width) {
  switch (width) {
    case Width::kPred:
      return 'p';
    case Width::k16:
      return 'h';
    case Width::k32:
      return 'i';
    case Width::k64:
      return 'l';
  }
  return '?';
}

char CodeOf(std::string_view type) {
  if (type == "f32") return 'f';
  if (type == "f64") return 'd';
  Width width;
  if (ptx::TypeBytes(type) == 1 || !TypeWidth(type, &width)) return '?';
  return CodeOf(width);
}

}  // namespace warpline::cpu
