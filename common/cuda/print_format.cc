#include "common/cuda/print_format.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

constexpr int kMaxWidth = 4096;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// One conversion, parsed.
struct Conversion {
  std::string flags;
  bool has_width = false;
  bool star_width = false;
  int width = 0;
  bool has_precision = false;
  bool star_precision = false;
  int precision = 0;
  int longs = 0;  // l: 1, ll: 2
  int shorts = 0;
  char type = 0;
};

int ParseNumber(std::string_view format, size_t* at) {
  int value = 0;
  for (; *at < format.size() && IsDigit(format[*at]); ++*at) {
    value = std::min(value * 10 + (format[*at] - '0'), kMaxWidth);
  }
  return value;
}

// Parses a conversion. `*at` is the place after the '%' and, on success, becomes the place after
// the conversion.
bool Parse(std::string_view format, size_t* at, Conversion* c) {
  size_t i = *at;
  const auto peek = [&] { return i < format.size() ? format[i] : '\0'; };
  while (peek() != '\0' && std::strchr("-+ #0", peek()) != nullptr) {
    if (c->flags.find(peek()) == std::string::npos) c->flags += peek();
    ++i;
  }
  if (peek() == '*') {
    c->star_width = c->has_width = true;
    ++i;
  } else if (IsDigit(peek())) {
    c->has_width = true;
    c->width = ParseNumber(format, &i);
  }
  if (peek() == '.') {
    ++i;
    c->has_precision = true;
    if (peek() == '*') {
      c->star_precision = true;
      ++i;
    } else {
      c->precision = ParseNumber(format, &i);
    }
  }
  for (;; ++i) {
    if (peek() == 'l' && c->longs < 2) {
      ++c->longs;
    } else if (peek() == 'h' && c->shorts < 2) {
      ++c->shorts;
    } else {
      break;
    }
  }
  if (peek() == '\0' || std::strchr("cdiouxXpeEfFgGaAs", peek()) == nullptr) return false;
  c->type = peek();
  *at = i + 1;
  return true;
}

template <typename T>
void AppendFormatted(const std::string& spec, T value, std::string* out) {
  char small[512];
  const int size = std::snprintf(small, sizeof(small), spec.c_str(), value);
  if (size < 0) return;
  if (static_cast<size_t>(size) < sizeof(small)) {
    out->append(small, static_cast<size_t>(size));
    return;
  }
  std::vector<char> large(static_cast<size_t>(size) + 1);
  std::snprintf(large.data(), large.size(), spec.c_str(), value);
  out->append(large.data(), static_cast<size_t>(size));
}

class Formatter {
 public:
  Formatter(const PrintSource& source, std::string* out) : source_(source), out_(out) {}

  int used() const { return used_; }

  bool Convert(Conversion c) {
    uint64_t value;
    if (c.star_width) {
      if (!Take(4, &value)) return false;
      const auto width = static_cast<int32_t>(value);
      if (width < 0) c.flags += '-';
      c.width = width <= -kMaxWidth ? kMaxWidth : std::min(width < 0 ? -width : width, kMaxWidth);
    }
    if (c.star_precision) {
      if (!Take(4, &value)) return false;
      const auto precision = static_cast<int32_t>(value);
      c.has_precision = precision >= 0;
      c.precision = std::min(precision, kMaxWidth);
    }
    std::string spec = absl::StrCat("%", c.flags);
    if (c.has_width) absl::StrAppend(&spec, c.width);
    if (c.has_precision) absl::StrAppend(&spec, ".", c.precision);
    switch (c.type) {
      case 's':
        return String(spec);
      case 'p':
        if (!Take(8, &value)) return false;
        AppendFormatted(spec + "p", reinterpret_cast<void*>(value), out_);
        return true;
      case 'c':
        if (!Take(4, &value)) return false;
        AppendFormatted(spec + "c", static_cast<int>(value), out_);
        return true;
      case 'd':
      case 'i':
      case 'o':
      case 'u':
      case 'x':
      case 'X':
        return Integer(c, spec);
      default: {
        if (!Take(8, &value)) return false;
        double number;
        std::memcpy(&number, &value, sizeof(number));
        AppendFormatted(spec + c.type, number, out_);
        return true;
      }
    }
  }

 private:
  bool Integer(const Conversion& c, const std::string& spec) {
    uint64_t value;
    if (!Take(c.longs > 0 ? 8 : 4, &value)) return false;
    if (c.longs > 0) {
      AppendFormatted(absl::StrCat(spec, "ll", std::string(1, c.type)),
                      static_cast<long long>(value), out_);
    } else {
      AppendFormatted(absl::StrCat(spec, std::string(static_cast<size_t>(c.shorts), 'h'),
                                   std::string(1, c.type)),
                      static_cast<int>(value), out_);
    }
    return true;
  }

  bool String(const std::string& spec) {
    uint64_t address;
    std::string text = "(null)";
    if (!Take(8, &address)) return false;
    if (address != 0 && !source_.string(address, &text)) return false;
    AppendFormatted(spec + "s", text.c_str(), out_);
    return true;
  }

  // Takes the next argument; each is aligned to its size.
  bool Take(uint32_t bytes, uint64_t* value) {
    offset_ = (offset_ + bytes - 1) / bytes * bytes;
    if (!source_.argument(offset_, bytes, value)) return false;
    offset_ += bytes;
    ++used_;
    return true;
  }

  const PrintSource& source_;
  std::string* const out_;
  uint64_t offset_ = 0;
  int used_ = 0;
};

}  // namespace

bool FormatPrint(std::string_view format, const PrintSource& source, std::string* out,
                 int* arguments) {
  Formatter formatter(source, out);
  for (size_t i = 0; i < format.size();) {
    const size_t percent = std::min(format.find('%', i), format.size());
    out->append(format, i, percent - i);
    i = percent;
    if (i == format.size()) break;
    if (i + 1 < format.size() && format[i + 1] == '%') {
      *out += '%';
      i += 2;
      continue;
    }
    Conversion conversion;
    size_t end = i + 1;
    if (formatter.used() >= kMaxPrintArguments || !Parse(format, &end, &conversion)) {
      *out += '%';
      ++i;
      continue;
    }
    if (!formatter.Convert(conversion)) return false;
    i = end;
  }
  *arguments = formatter.used();
  return true;
}

}  // namespace warpline
