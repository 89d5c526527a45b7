// The names of one function: registers, parameters, variables and labels, in nested blocks.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_SCOPES_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_SCOPES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ptx/ast.h"
#include "server/device/cpu/lowering/code_builder.h"
#include "server/device/cpu/lowering/kernel_context.h"
#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

struct Symbol {
  enum class Kind { kRegister, kParam, kLocal, kShared };
  Kind kind = Kind::kRegister;
  Width width = Width::k32;
  uint32_t slot = 0;  // kRegister; further elements of a vector follow
  uint32_t vector_width = 1;
  uint64_t offset = 0;  // Others: in their state space
  uint64_t bytes = 0;
  uint32_t element_bytes = 1;
};

// Methods that return false have recorded an error in the builder. Thread-compatible.
class Scopes {
 public:
  // All are borrowed.
  Scopes(const KernelContext* kernel, const ptx::Function* function, CodeBuilder* code)
      : kernel_(*kernel), function_(*function), code_(*code) {}

  // Finds the labels and declares parameters and results. First, and once.
  bool Start();
  void OpenBlock();
  void CloseBlock();

  bool Declare(const ptx::Variable& variable);
  // A register of lowering's own.
  void Add(const std::string& name, const Symbol& symbol) { scopes_.back().names[name] = symbol; }
  // Null for one that is not known. Valid until the next call.
  const Symbol* Find(const std::string& name);
  uint32_t local_bytes() const { return local_bytes_; }

  // The next instruction is where `label` stands.
  void PlaceLabel(const std::string& label);
  // The next instruction is a branch to `label`.
  void BranchTo(const std::string& label);
  // Sets the targets of the branches. Last.
  bool BindLabels();

 private:
  struct Range {  // .reg .b32 %r<count>
    std::string prefix;
    uint32_t count;
    Width width;
    uint32_t vector_width;
  };
  struct Scope {
    uint32_t id = 0;
    std::unordered_map<std::string, Symbol> names;
    std::vector<Range> ranges;
    uint64_t local_top = 0;
  };
  using LabelKey = std::pair<uint32_t, std::string>;  // Scope and name

  bool FindLabels();
  void DeclareParams();
  bool DeclareFormals();

  const KernelContext& kernel_;
  const ptx::Function& function_;
  CodeBuilder& code_;
  std::vector<Scope> scopes_;
  std::vector<uint32_t> scope_parents_;
  uint32_t next_scope_ = 0;
  std::map<LabelKey, uint32_t> label_pcs_;  // UINT32_MAX until the label is reached.
  std::vector<std::pair<size_t, LabelKey>> branches_;
  uint64_t local_top_ = 0;
  uint32_t local_bytes_ = 0;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_SCOPES_H_
