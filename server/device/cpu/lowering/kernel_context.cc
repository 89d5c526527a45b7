#include "server/device/cpu/lowering/kernel_context.h"

#include <algorithm>

#include "ptx/types.h"
#include "server/device/cpu/lowering/operand_code.h"

namespace warpline::cpu {

Formals LayOutFormals(const ptx::Function& function) {
  Formals formals;
  const auto place = [&](const std::vector<ptx::Variable>& variables, std::vector<Formal>* out) {
    for (const ptx::Variable& variable : variables) {
      Formal formal;
      if (variable.space == "reg") {
        Width width = Width::k32;
        TypeWidth(variable.type, &width);
        formal.is_register = true;
        formal.at = formals.slot_bytes;
        formal.bytes = static_cast<uint32_t>(width);
        formals.slot_bytes += std::max<uint32_t>(SlotBytes(width), 64);
      } else {
        const uint64_t bytes = std::min<uint64_t>(ptx::VariableBytes(variable), kMaxLocalBytes);
        formal.at = static_cast<uint32_t>(ptx::AlignUp(
            formals.local_bytes, std::min<uint64_t>(ptx::VariableAlignment(variable), 16)));
        formal.bytes = static_cast<uint32_t>(bytes);
        formals.local_bytes =
            static_cast<uint32_t>(std::min<uint64_t>(formal.at + bytes, 2 * kMaxLocalBytes));
      }
      out->push_back(formal);
    }
  };
  place(function.results, &formals.results);
  place(function.params, &formals.params);
  return formals;
}

}  // namespace warpline::cpu
