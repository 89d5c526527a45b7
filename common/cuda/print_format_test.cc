#include "common/cuda/print_format.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace warpline {
namespace {

// Lays arguments out as nvcc does.
class Arguments {
 public:
  template <typename T>
  Arguments& Add(T value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    bytes_.resize((bytes_.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
    const auto* data = reinterpret_cast<const char*>(&value);
    bytes_.insert(bytes_.end(), data, data + sizeof(value));
    return *this;
  }

  std::string Format(const char* format, int* used = nullptr) {
    const auto argument = [&](uint64_t offset, uint32_t size, uint64_t* value) {
      if (offset + size > bytes_.size()) return false;
      *value = 0;
      std::memcpy(value, bytes_.data() + offset, size);
      return true;
    };
    const auto string = [](uint64_t address, std::string* text) {
      *text = reinterpret_cast<const char*>(address);
      return true;
    };
    std::string out;
    int count = -1;
    ok_ = FormatPrint(format, {argument, string}, &out, &count);
    if (used != nullptr) *used = count;
    return out;
  }
  bool ok() const { return ok_; }

 private:
  std::vector<char> bytes_;
  bool ok_ = false;
};

template <typename T>
std::string Host(const char* format, T value) {
  char text[256];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

TEST(PrintFormatTest, FormatsEveryConversionAsTheHost) {
  for (const char* f : {"%d", "%i", "%5d", "%-5d|", "%05d", "%+d", "% d", "%x", "%#x", "%X", "%o",
                        "%#o", "%u", "%.3d", "%hd", "%hu", "%hhd", "%c"}) {
    EXPECT_EQ(Arguments().Add(int{-70000 + 'A'}).Format(f), Host(f, int{-70000 + 'A'})) << f;
  }
  for (const char* f : {"%ld", "%lld", "%llu", "%lx", "%20lld", "%-20lld|"}) {
    EXPECT_EQ(Arguments().Add(-123456789012LL).Format(f), Host(f, -123456789012LL)) << f;
  }
  for (const char* f : {"%f", "%.2f", "%10.3f", "%e", "%E", "%g", "%G", "%a", "%A", "%+.0f"}) {
    EXPECT_EQ(Arguments().Add(-1234.56789).Format(f), Host(f, -1234.56789)) << f;
  }
  for (const char* f : {"%s", "%10s", "%-10s|", "%.2s"}) {
    EXPECT_EQ(Arguments().Add("text").Format(f), Host(f, "text")) << f;
  }
  void* const address = reinterpret_cast<void*>(0x7f1234);
  EXPECT_EQ(Arguments().Add(address).Format("%p"), Host("%p", address));
}

TEST(PrintFormatTest, AlignsArgumentsToTheirSize) {
  int used = 0;
  EXPECT_EQ(Arguments().Add(1).Add(2.5).Add(3).Add(4ll).Add(5).Format("%d %g %d %lld %d", &used),
            "1 2.5 3 4 5");
  EXPECT_EQ(used, 5);
}

TEST(PrintFormatTest, StarsTakeArguments) {
  EXPECT_EQ(Arguments().Add(6).Add(42).Format("%*d|"), "    42|");
  EXPECT_EQ(Arguments().Add(-6).Add(42).Format("%*d|"), "42    |");
  EXPECT_EQ(Arguments().Add(2).Add(1.239).Format("%.*f"), "1.24");
}

TEST(PrintFormatTest, CopiesWhatIsNoConversion) {
  int used = -1;
  EXPECT_EQ(Arguments().Format("100%% %y 5% %", &used), "100% %y 5% %");
  EXPECT_EQ(used, 0);
}

TEST(PrintFormatTest, NullStringPrintsAsOnTheHost) {
  EXPECT_EQ(Arguments().Add(uint64_t{0}).Format("%s"), "(null)");
}

TEST(PrintFormatTest, WidthIsBounded) {
  EXPECT_EQ(Arguments().Add(1).Format("%999999999d").size(), 4096u);
  EXPECT_EQ(Arguments().Add(INT32_MIN).Add(1).Format("%*d").size(), 4096u);
}

TEST(PrintFormatTest, FailsWhenAnArgumentCannotBeRead) {
  Arguments none;
  none.Format("%d");
  EXPECT_FALSE(none.ok());
}

TEST(PrintFormatTest, TakesAtMostThirtyTwoArguments) {
  Arguments many;
  std::string format;
  for (int i = 0; i < 40; ++i) {
    many.Add(i);
    format += "%d ";
  }
  int used = 0;
  const std::string text = many.Format(format.c_str(), &used);
  EXPECT_EQ(used, 32);
  EXPECT_NE(text.find("31 %d"), std::string::npos);
}

}  // namespace
}  // namespace warpline
