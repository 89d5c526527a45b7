// Writes the fences of docs/guarded-ptx.md, and knows which of the guard's registers they take.
#ifndef WARPLINE_GUARD_REWRITE_FENCES_H_
#define WARPLINE_GUARD_REWRITE_FENCES_H_

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "guard/rewrite/shared_groups.h"
#include "ptx/ast.h"

namespace warpline::guard {

struct FenceSettings {
  int arena_bits = 36;
  bool hardened = false;
  bool asks_at_entry = false;  // The function is a kernel that asks whether to stop.
  bool zeroes_shared = false;  // The function is a kernel that may reach shared memory.
  bool is_wide = false;        // A kernel whose blocks may have more than one thread in a row.
  uint64_t local_bytes = 0;    // 0 where there is no wlg_locals
  // Bytes from its start that the function's own pointers may lead to.
  uint64_t local_window = 0;
  uint64_t param_bytes = 0;
  uint64_t const_bytes = 0;
};

// The guard register of a SharedGroup with this number.
std::string_view SharedGroupRegister(int number);

// The statements of one function, in order. Thread-compatible.
//
// The methods that fence take a register's name, write what confines its value, and return the name
// of the register that holds the address. `bytes` is the size of the access.
class FenceWriter {
 public:
  explicit FenceWriter(const FenceSettings& settings) : settings_(settings) {}

  void At(ptx::SourceLine line) { line_ = line; }
  void Add(ptx::Instruction instruction) { code_.push_back({std::move(instruction), line_}); }
  void Add(ptx::Statement statement) { code_.push_back(std::move(statement)); }

  // Has a guard register be declared, and set if the prologue sets it.
  std::string_view Use(std::string_view name) {
    used_.insert(name);
    return name;
  }

  // --- Values
  std::string_view Sum(std::string_view x, int64_t offset);
  std::string_view Widen(std::string_view x);
  std::string_view Globals() { return Use("wlg_globals"); }
  std::string_view Consts() { return Use("wlg_consts"); }
  std::string_view Locals() { return Use("wlg_local"); }
  // Where the ring of records lies.
  std::string_view Records();
  // The stride of a matrix, or the bytes of a copy; `most` at the most.
  std::string_view Bounded(const ptx::Operand& extent, int64_t most);
  // A size that is `bytes` or nothing.
  std::string_view AllOrNothing(const ptx::Operand& size, int64_t bytes);
  // `bytes` or nothing. For another size the thread ends, if the predicate, which may be empty,
  // holds.
  std::string_view Part(const ptx::Operand& size, int64_t bytes, std::string_view predicate,
                        bool negated);
  // Sets wlg_ps in lanes that are not all here: not 32 of them, or, if `of_live`, not all that
  // there are and that have not left by Leave().
  void TestWholeWarp(bool of_live);
  // Ends the lanes of a whole warp for which the predicate, which may be negated, holds, and has
  // the others count without them.
  void Leave(std::string_view predicate, bool negated);
  // Sets wlg_ps.
  void TestShared(std::string_view x);
  // Has the register of the group hold the address that the others are distances from.
  // `known` is what that address is known to be a multiple of.
  void BeginSharedGroup(const SharedGroup& group, uint64_t known);
  // Where a generic address lies in shared memory, if it does.
  std::string_view InShared(std::string_view x);

  // --- Fences
  std::string_view Arena(std::string_view x, uint64_t bytes);
  std::string_view Generic(std::string_view x, uint64_t bytes);
  std::string_view Local(std::string_view x, uint64_t bytes);
  std::string_view Param(std::string_view x, uint64_t bytes);
  std::string_view Const(std::string_view x, uint64_t bytes);
  // `x` is a register.
  // The sum of x and the offset is known to be a multiple of `known`.
  std::string_view Shared(std::string_view x, bool is_wide, int64_t offset, uint64_t bytes,
                          uint64_t known);
  std::string_view SharedVariable(std::string_view name, int64_t offset, uint64_t bytes);

  // The function is a kernel that asks whether to stop.
  bool asks_at_entry() const { return settings_.asks_at_entry; }
  // What was added so far.
  std::vector<ptx::Statement>* code() { return &code_; }
  // The declarations and statements that the body begins with, `first`, then all that was added. In
  // a kernel, `first_param` is its first parameter.
  std::vector<ptx::Statement> Take(bool is_entry, std::string_view first_param, bool calls,
                                   const std::vector<ptx::Variable>& declarations,
                                   std::vector<ptx::Statement> first);

 private:
  // Where the last access of so many bytes to local memory may begin.
  int64_t LastLocal(uint64_t bytes) const;
  std::string_view Within(std::string_view x, std::string_view base, int64_t last, uint64_t bytes);
  // `alignment` is what the register is to be a multiple of, `known` what it is already.
  void ClampShared(std::string_view name, uint64_t bytes, uint64_t alignment, uint64_t known);
  void Align(std::string_view type, std::string_view name, uint64_t bytes);
  // What a kernel begins with where others have used the same shared memory before.
  static void ZeroShared(std::vector<ptx::Statement>* body);
  // Sets wlg_live to the lanes that the thread's warp has.
  static void CountLanes(std::vector<ptx::Statement>* body);
  static bool NeedsZeros(const ptx::Statement& statement);
  static void AwaitZeros(std::vector<ptx::Statement>* body);

  const FenceSettings settings_;
  ptx::SourceLine line_;
  std::vector<ptx::Statement> code_;
  std::set<std::string_view> used_;
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_FENCES_H_
