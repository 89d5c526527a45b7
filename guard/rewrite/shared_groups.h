// Finds accesses to shared memory that may share one fence: those through the same register, at
// several offsets, that are surely executed together. So what is in bounds for all of them is no
// stricter than what is in bounds for each.
//
// Thread-compatible.
#ifndef WARPLINE_GUARD_REWRITE_SHARED_GROUPS_H_
#define WARPLINE_GUARD_REWRITE_SHARED_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "guard/rewrite/flatten.h"
#include "ptx/ast.h"
#include "ptx/instruction_set.h"

namespace warpline::guard {

// The bytes from `base + offset` on, `span` of them.
struct SharedGroup {
  std::string base;
  bool is_wide = false;  // The base has 64 bits.
  int64_t offset = 0;
  uint64_t span = 0;
  uint64_t alignment = 0;  // Of `base + offset`, if the program is right
  int number = 0;          // Of the guard register that has the address; below kSharedGroups
};

class SharedGroups {
 public:
  // Where an access lies.
  struct Place {
    size_t group = 0;  // An index of groups()
    int64_t distance = 0;
    bool is_first = false;
  };

  explicit SharedGroups(const FlatFunction& function);

  const std::vector<SharedGroup>& groups() const { return groups_; }
  // Null for a statement that is no access of a group. `statement` is one of the function's.
  const Place* Find(const ptx::Statement* statement) const;

 private:
  struct Access {
    const ptx::Statement* statement = nullptr;
    int64_t offset = 0;
    uint64_t bytes = 0;
  };
  // Accesses through one register, in the order of the text.
  struct Candidate {
    std::string base;
    std::vector<Access> accesses;
    int64_t least = 0;  // Of the offsets
    int64_t end = 0;    // Of the last byte
  };

  void Follow(const ptx::Statement& statement, const ptx::Instruction& instruction);
  void NoteAccess(const ptx::Statement& statement, const ptx::Instruction& instruction,
                  const ptx::Description& what);
  void NoteWrites(const ptx::Instruction& instruction, const ptx::Description& what);
  void NoteWrite(const ptx::Operand& operand);
  void Close(const std::string& base);
  void EndRun();
  bool Add(const Candidate& candidate, int number);

  const FlatFunction& function_;
  std::unordered_map<std::string, Candidate> open_;
  std::vector<Candidate> closed_;  // Of this run of statements
  std::vector<SharedGroup> groups_;
  std::unordered_map<const ptx::Statement*, Place> places_;
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_SHARED_GROUPS_H_
