// Integers of 128 bits for the extents of operands. A sum or product that overflows is no number
// from then on.
#ifndef WARPLINE_PROTO_ADAPTERS_WIDE_H_
#define WARPLINE_PROTO_ADAPTERS_WIDE_H_

#include <cstdint>
#include <limits>

namespace warpline {

class Wide {
 public:
  constexpr explicit Wide(int64_t value) : value_(value) {}

  // Returns whether no operation has overflowed.
  constexpr bool valid() const { return valid_; }
  // Returns whether it is a number of at most `most`, and not negative.
  constexpr bool IsWithin(uint64_t most) const {
    return valid_ && value_ >= 0 && value_ <= static_cast<Number>(most);
  }
  // REQUIRES: IsWithin() some bound.
  constexpr uint64_t value() const { return static_cast<uint64_t>(value_); }
  constexpr int64_t signed_value() const { return static_cast<int64_t>(value_); }

  friend constexpr Wide operator+(Wide a, Wide b) {
    Wide sum(0);
    sum.valid_ = !__builtin_add_overflow(a.value_, b.value_, &sum.value_) && a.valid_ && b.valid_;
    return sum;
  }
  friend constexpr Wide operator-(Wide a, Wide b) {
    Wide difference(0);
    difference.valid_ =
        !__builtin_sub_overflow(a.value_, b.value_, &difference.value_) && a.valid_ && b.valid_;
    return difference;
  }
  friend constexpr Wide operator*(Wide a, Wide b) {
    Wide product(0);
    product.valid_ =
        !__builtin_mul_overflow(a.value_, b.value_, &product.value_) && a.valid_ && b.valid_;
    return product;
  }
  friend constexpr Wide operator&(Wide a, Wide b) {
    Wide both(0);
    both.value_ = a.value_ & b.value_;
    both.valid_ = a.valid_ && b.valid_;
    return both;
  }
  // Comparisons with what is no number are false.
  friend constexpr bool operator==(Wide a, Wide b) { return Both(a, b) && a.value_ == b.value_; }
  friend constexpr bool operator!=(Wide a, Wide b) { return Both(a, b) && a.value_ != b.value_; }
  friend constexpr bool operator<(Wide a, Wide b) { return Both(a, b) && a.value_ < b.value_; }
  friend constexpr bool operator<=(Wide a, Wide b) { return Both(a, b) && a.value_ <= b.value_; }
  friend constexpr bool operator>(Wide a, Wide b) { return b < a; }
  friend constexpr bool operator>=(Wide a, Wide b) { return b <= a; }

 private:
  using Number = __int128;
  static constexpr bool Both(Wide a, Wide b) { return a.valid_ && b.valid_; }

  Number value_;
  bool valid_ = true;
};

}  // namespace warpline

#endif  // WARPLINE_PROTO_ADAPTERS_WIDE_H_
