// A set of the enumerators of an enumeration whose values are bits.
//
//   enum class Taste : uint32_t { kSweet = 1u << 0, kSour = 1u << 1 };
//   constexpr EnumSet<Taste> both = EnumSet(Taste::kSweet) | Taste::kSour;
//   if (both.Has(Taste::kSour)) ...
#ifndef WARPLINE_COMMON_ENUM_SET_H_
#define WARPLINE_COMMON_ENUM_SET_H_

#include <type_traits>

namespace warpline {

template <typename Enum>
class EnumSet {
 public:
  constexpr EnumSet() = default;
  constexpr EnumSet(Enum one)  // NOLINT(google-explicit-constructor)
      : bits_(static_cast<Bits>(one)) {}

  constexpr bool Has(Enum one) const { return (bits_ & static_cast<Bits>(one)) != 0; }
  friend constexpr EnumSet operator|(EnumSet a, EnumSet b) {
    a.bits_ |= b.bits_;
    return a;
  }
  constexpr bool operator==(const EnumSet&) const = default;

 private:
  using Bits = std::underlying_type_t<Enum>;
  Bits bits_ = 0;
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_ENUM_SET_H_
