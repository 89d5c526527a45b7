// What numbers registers may hold.
#ifndef WARPLINE_GUARD_REWRITE_KNOWN_NUMBERS_H_
#define WARPLINE_GUARD_REWRITE_KNOWN_NUMBERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "guard/rewrite/flatten.h"

namespace warpline::guard {

// The sizes of copies are mostly such: all of the bytes, or none where an element is masked out. So
// are the numbers of barriers and the masks that name lanes. Thread-compatible.
class KnownNumbers {
 public:
  explicit KnownNumbers(const FlatFunction& function);

  // Whether the register holds `bytes` or nothing, wherever it is read.
  bool IsAllOrNothing(const std::string& name, uint64_t bytes) const;
  // The one number that is written to the register.
  std::optional<uint64_t> OnlyOf(const std::string& name) const;

 private:
  // What is written to a register.
  struct Written {
    bool is_known = true;  // It is one of these.
    std::unordered_set<uint64_t> numbers;
    std::unordered_set<std::string> registers;
  };
  std::unordered_map<std::string, Written> registers_;
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_KNOWN_NUMBERS_H_
