// Reads what a module declares: everything but the statements of its functions.
#ifndef WARPLINE_GUARD_VERIFY_MODULE_H_
#define WARPLINE_GUARD_VERIFY_MODULE_H_

#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "guard/verify/declarations.h"
#include "guard/verify/function.h"
#include "guard/verify/reader.h"

namespace warpline::guard {

// Reads one text into one module. Both must outlive it. Thread-compatible.
class ModuleReader {
 public:
  ModuleReader(std::string_view text, Module* module) : lines_(text), module_(*module) {}

  // Call it once. If it refuses, line() says where.
  Refusal Read();
  const Line& line() const { return lines_.line(); }

 private:
  Refusal ReadPreamble();
  Refusal ReadConstants();
  Refusal ReadItem();
  Refusal ReadShared();
  Refusal ReadPrototype(const Head& head);
  Refusal ReadDefinition(Head head);
  Refusal ReadBody(Function* function);
  Refusal NoteLocals();

  Lines lines_;
  Module& module_;
  absl::flat_hash_map<std::string_view, Head> prototypes_;
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_MODULE_H_
