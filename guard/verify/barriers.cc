#include "guard/verify/barriers.h"

namespace warpline::guard {

void Barriers::Add(const BarrierForm& form, const Line& line, bool is_of_whole_warp) {
  forms_.emplace(form, line);
  if (!is_of_whole_warp && !parted_.has_value()) parted_ = line;
}

void Barriers::Include(const Barriers& callee) {
  forms_.insert(callee.forms_.begin(), callee.forms_.end());
  if (!parted_.has_value()) parted_ = callee.parted_;
}

Finding Barriers::Verify() const {
  // Those of one number follow each other, so that one which differs from another one differs from
  // one beside it.
  const BarrierForm* last = nullptr;
  for (const auto& [form, line] : forms_) {
    if (last != nullptr && last->number == form.number) {
      if (last->threads != form.threads) {
        return {line, "one number of barriers for different numbers of threads"};
      }
      constexpr BarrierForm::Kind kReduce = BarrierForm::Kind::kReduce;
      if ((last->kind == kReduce) != (form.kind == kReduce)) {
        return {line, "one number of barriers that reduce and of others"};
      }
    }
    last = &form;
  }
  if (forms_.size() > 1 && parted_.has_value()) {
    return {*parted_, "a barrier in a warp that may not be whole, where there are several"};
  }
  return {};
}

}  // namespace warpline::guard
