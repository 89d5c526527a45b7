// Which barriers of a block a function has, itself and by whom it calls.
//
// Seen on a GPU: the context ends where parts of one warp come to different barriers, and where
// warps come to one number for different numbers of threads, or by `red` and by something else. So
// a number stands for one barrier, and where there are several only whole warps come to them.
// Thread-compatible.
#ifndef WARPLINE_GUARD_VERIFY_BARRIERS_H_
#define WARPLINE_GUARD_VERIFY_BARRIERS_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>

#include "guard/verify/reader.h"

namespace warpline::guard {

struct BarrierForm {
  enum class Kind : uint8_t { kSync, kArrive, kReduce };
  int64_t number = 0;
  Kind kind = Kind::kSync;
  int64_t threads = 0;  // 0 if it does not say for how many it is

  friend auto operator<=>(const BarrierForm&, const BarrierForm&) = default;
};

class Barriers {
 public:
  // `is_of_whole_warp` says whether all lanes of a warp surely come to the line together.
  void Add(const BarrierForm& form, const Line& line, bool is_of_whole_warp);
  // Whoever has these calls one who has those.
  void Include(const Barriers& callee);
  // Whether they may stand together.
  Finding Verify() const;

 private:
  std::map<BarrierForm, Line> forms_;  // With the first line of each
  std::optional<Line> parted_;         // The first one to which a warp may come in parts
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_BARRIERS_H_
