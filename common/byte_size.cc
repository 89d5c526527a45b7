#include "common/byte_size.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

constexpr absl::string_view kUnits = "KMGT";

}  // namespace

bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  uint64_t number;
  if (!absl::SimpleAtoi(text.substr(0, digits), &number)) {
    *error = "expected a size such as 512MiB or 8G";
    return false;
  }
  std::string unit = absl::AsciiStrToUpper(text.substr(digits));
  int shift = 0;
  if (!unit.empty() && unit != "B") {
    const size_t index = kUnits.find(unit[0]);
    const std::string rest = unit.substr(1);
    if (index == absl::string_view::npos || (!rest.empty() && rest != "B" && rest != "IB")) {
      *error = absl::StrCat("unknown unit \"", text.substr(digits), "\"; use K, M, G or T");
      return false;
    }
    shift = 10 * (static_cast<int>(index) + 1);
  }
  if (number > (~uint64_t{0} >> shift)) {
    *error = "too large";
    return false;
  }
  size->bytes = number << shift;
  return true;
}

std::string AbslUnparseFlag(ByteSize size) {
  uint64_t value = size.bytes;
  size_t unit = 0;
  for (; value != 0 && value % 1024 == 0 && unit < kUnits.size(); ++unit) value /= 1024;
  if (unit == 0) return absl::StrCat(value);
  return absl::StrCat(value, kUnits.substr(unit - 1, 1), "iB");
}

}  // namespace warpline
