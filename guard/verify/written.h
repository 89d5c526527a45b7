// Which registers, and which bytes of parameters, have surely been written at one place of a
// function's code.
//
// Nothing may be read that may not have been written: ptxas takes such a register for the same in
// all lanes of a warp, whatever is in it, and lets lanes that part on it share registers. What is
// in it is another kernel's.
//
// The code is followed once, in the order of its text. At a label that is surely written what was
// on every way there that has been seen by then; a branch back to it must bring as much. Where no
// way has been seen it is what was written before the first label or branch. Thread-compatible.
#ifndef WARPLINE_GUARD_VERIFY_WRITTEN_H_
#define WARPLINE_GUARD_VERIFY_WRITTEN_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "guard/verify/names.h"

namespace warpline::guard {

class Written {
 public:
  // The names must outlive this. A register has no bytes that count.
  // What is passing is forgotten at the next label: steps of fences, and arguments of calls.
  void Write(std::string_view name, bool is_passing);
  void WriteBytes(std::string_view name, int64_t offset, int64_t bytes, bool is_passing);
  // What a parameter held is gone.
  void ForgetBytes(std::string_view name, int64_t bytes);
  bool Has(std::string_view name) const { return Is(name, kRegister); }
  bool HasBytes(std::string_view name, int64_t offset, int64_t bytes) const;

  // Whether what stands here can be reached, as far as is known.
  bool reachable() const { return reachable_; }
  // The code does not go on here.
  void EndPath();
  Refusal PlaceLabel(std::string_view label);
  Refusal BranchTo(std::string_view label);

 private:
  using Bits = std::vector<uint64_t>;
  static constexpr int64_t kRegister = -1;

  bool Is(std::string_view name, int64_t offset) const;
  size_t Set(std::string_view name, int64_t offset, bool written);
  void EndStart();
  Refusal Store(Bits bits, Bits* to);

  absl::flat_hash_map<std::pair<std::string_view, int64_t>, size_t> numbers_;
  Bits now_;    // By number
  Bits start_;  // Before the first label or branch
  Bits passing_;
  bool in_start_ = true;
  bool reachable_ = true;
  absl::flat_hash_map<std::string_view, Bits> ahead_;   // Of labels that are branched to
  absl::flat_hash_map<std::string_view, Bits> behind_;  // Of labels that have been passed
  size_t stored_words_ = 0;
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_WRITTEN_H_
