#include "guard/rewrite/module_layout.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "guard/rewrite/limits.h"
#include "guard/rewrite/runtime.h"
#include "guard/rewrite/words.h"
#include "ptx/types.h"

namespace warpline::guard {
namespace {

using ptx::InitElement;
using ptx::Variable;

void Put(std::string* image, uint64_t offset, uint64_t bits, uint64_t bytes) {
  if (image->size() < offset + bytes) image->resize(offset + bytes);
  std::memcpy(image->data() + offset, &bits, bytes);
}

class Layouter {
 public:
  Layouter(const ptx::Module& module, ModuleLayout* layout) : module_(module), layout_(*layout) {}

  absl::Status Run() {
    layout_.consts_image.assign(kGuardWordBytes, '\0');
    uint64_t consts = kGuardWordBytes;
    std::vector<std::pair<const Variable*, size_t>> globals;
    for (const auto& item : module_.items) {
      const auto* const variable = std::get_if<Variable>(&item);
      if (variable == nullptr) continue;
      if (variable->space == "global") {
        globals.emplace_back(variable, layout_.globals.size());
        layout_.globals.push_back(Place(*variable, &layout_.globals_bytes));
      } else if (variable->space == "const") {
        layout_.consts.push_back(Place(*variable, &consts));
        FillConst(*variable, &layout_.consts.back());
      }
      if (layout_.globals_bytes > kMostGlobalBytes) {
        return absl::InvalidArgumentError("the module's variables are too large");
      }
      if (consts > kMostConstBytes) {
        return absl::InvalidArgumentError(
            absl::StrCat("the module has ", consts - kGuardWordBytes, " bytes of constants; ",
                         kMostConstBytes - kGuardWordBytes, " are left beside the guard's"));
      }
    }
    layout_.consts_image.resize(consts);
    PlacedVariable words;
    words.name = kWordsVariable;
    words.bytes = kGuardWordBytes;
    layout_.own.push_back(std::move(words));
    for (PlacedVariable& placed : layout_.globals) layout_.globals_by_name[placed.name] = &placed;
    for (PlacedVariable& placed : layout_.consts) layout_.consts_by_name[placed.name] = &placed;
    for (PlacedVariable& placed : layout_.own) layout_.consts_by_name[placed.name] = &placed;
    // An initialiser may name a variable that is declared later.
    for (const auto& [variable, index] : globals) FillGlobal(*variable, &layout_.globals[index]);
    return absl::OkStatus();
  }

 private:
  PlacedVariable Place(const Variable& variable, uint64_t* top) {
    PlacedVariable placed;
    placed.name = variable.name;
    const uint64_t alignment = ptx::VariableAlignment(variable);
    if (variable.linkage == "extern") {
      placed.refusal = "is of another module";
    } else if (variable.managed) {
      placed.refusal = "is managed memory";
    } else if (variable.type == "texref" || variable.type == "samplerref" ||
               variable.type == "surfref") {
      placed.refusal = "is a texture, a sampler or a surface";
    } else if (!SizeOf(variable, &placed.bytes) || placed.bytes == 0) {
      placed.refusal = "has no size, or too large a size";
      placed.bytes = 0;
    } else if (alignment > kVariableAlignment) {
      placed.refusal = "has too large an alignment";
    } else {
      *top = placed.offset = ptx::AlignUp(*top, alignment);
      *top += placed.bytes;
    }
    return placed;
  }

  static uint64_t ElementBytes(const Variable& variable) {
    return static_cast<uint64_t>(ptx::TypeBytes(variable.type));
  }

  void FillConst(const Variable& variable, PlacedVariable* placed) {
    uint64_t at = placed->offset;
    for (const InitElement& element : variable.init) {
      if (!placed->refusal.empty()) return;
      if (element.kind == InitElement::Kind::kSymbol) {
        placed->refusal = "holds an address";
        return;
      }
      if (at + ElementBytes(variable) > placed->offset + placed->bytes) return;
      Put(&layout_.consts_image, at, element.bits, ElementBytes(variable));
      at += ElementBytes(variable);
    }
  }

  void FillGlobal(const Variable& variable, PlacedVariable* placed) {
    uint64_t at = placed->offset;
    for (const InitElement& element : variable.init) {
      if (!placed->refusal.empty()) return;
      if (at + ElementBytes(variable) > placed->offset + placed->bytes) return;
      uint64_t bits = element.bits;
      if (element.kind == InitElement::Kind::kSymbol) {
        const ptx::InitSymbol& symbol = variable.init_symbols[element.symbol];
        const auto found = layout_.globals_by_name.find(symbol.name);
        if (found == layout_.globals_by_name.end() || !found->second->refusal.empty() ||
            symbol.mask != 0 || ElementBytes(variable) != 8) {
          placed->refusal = absl::StrCat("holds the address of ", symbol.name,
                                         ", which is no variable in the arena");
          return;
        }
        bits += found->second->offset;
        layout_.relocations.push_back({at});
      }
      // What is zero is not written, so that a large variable without values costs nothing.
      if (bits != 0 || element.kind == InitElement::Kind::kSymbol) {
        Put(&layout_.globals_image, at, bits, ElementBytes(variable));
      }
      at += ElementBytes(variable);
    }
  }

  const ptx::Module& module_;
  ModuleLayout& layout_;
};

}  // namespace

bool LieWithin(const std::vector<PlacedVariable>& variables, uint64_t first, uint64_t end) {
  return std::all_of(variables.begin(), variables.end(), [&](const PlacedVariable& variable) {
    return !variable.refusal.empty() || (variable.offset >= first && variable.offset <= end &&
                                         variable.bytes <= end - variable.offset);
  });
}

absl::StatusOr<ModuleLayout> PlaceVariables(const ptx::Module& module) {
  ModuleLayout layout;
  const absl::Status status = Layouter(module, &layout).Run();
  if (!status.ok()) return status;
  return layout;
}

}  // namespace warpline::guard
