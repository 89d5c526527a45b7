// Tests that a layout comes back as it was, and that nothing else is taken for one.
#include "server/compiler/layout_format.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "guard/guard.h"

namespace warpline::compiler {
namespace {

guard::GuardedText Sample() {
  guard::GuardedText guarded;
  guarded.layout.globals = {
      {"counter", 0, 4, ""}, {"table", 128, 64, ""}, {"image", 0, 0, "is one"}};
  guarded.layout.consts = {{"step", 64, 4, ""}};
  guarded.layout.globals_bytes = 192;
  guarded.layout.globals_image = std::string(160, '\7');
  guarded.layout.relocations = {{128}, {152}};
  guarded.kernels = {"count", "prints"};
  guarded.leaves_records = true;
  guarded.target = 75;
  guarded.refusals = {{"jumps", "callee", "line 7: no"}};
  guarded.sites = {{"count", 12, "st.global.u32 [%rd4], %r1", "saxpy.cu:12", true}};
  return guarded;
}

TEST(LayoutFormatTest, ComesBackAsItWas) {
  const std::string bytes = LayoutBytes(Sample());
  const auto read = ParseLayout(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(LayoutBytes(*read), bytes);
  EXPECT_EQ(read->layout.globals[1].name, "table");
  EXPECT_EQ(read->target, 75);
  EXPECT_EQ(read->layout.relocations[1].offset, 152u);
  EXPECT_EQ(read->refusals[0].reason, "line 7: no");
  EXPECT_EQ(read->sites[0].source, "saxpy.cu:12");
  EXPECT_TRUE(read->leaves_records);
  EXPECT_TRUE(ParseLayout(LayoutBytes({})).ok());
}

TEST(LayoutFormatTest, TruncatedOrLongerBytesAreNone) {
  const std::string bytes = LayoutBytes(Sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParseLayout(bytes.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(ParseLayout(bytes + '\0').ok());
}

TEST(LayoutFormatTest, ChangedBytesDoNoHarm) {
  const std::string bytes = LayoutBytes(Sample());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const char value : {'\0', '\1', '\x7f', '\xff'}) {
      std::string changed = bytes;
      changed[at] = value;
      const auto read = ParseLayout(changed);
      if (read.ok()) {
        (void)guard::GlobalsAt(read->layout, uint64_t{1} << 40);
      }
    }
  }
}

TEST(LayoutFormatTest, NamesHaveBoundsAndWhatIsForPeopleIsCut) {
  for (const size_t size : {size_t{16384}, size_t{16385}}) {
    const std::string name(size, 'n');
    const bool fits = size == 16384;
    auto guarded = Sample();
    guarded.kernels[0] = name;
    EXPECT_EQ(ParseLayout(LayoutBytes(guarded)).ok(), fits);
    guarded = Sample();
    guarded.layout.globals[0].name = name;
    EXPECT_EQ(ParseLayout(LayoutBytes(guarded)).ok(), fits);
    guarded = Sample();
    guarded.refusals[0].kernel = name;
    EXPECT_EQ(ParseLayout(LayoutBytes(guarded)).ok(), fits);
    guarded = Sample();
    guarded.refusals[0].reason = name;
    EXPECT_EQ(ParseLayout(LayoutBytes(guarded))->refusals[0].reason, std::string(4096, 'n'));
  }
  auto guarded = Sample();
  guarded.refusals.resize((1u << 16) + 1);
  EXPECT_FALSE(ParseLayout(LayoutBytes(guarded)).ok());
}

TEST(LayoutFormatTest, WhatLeadsOutsideItsBlockIsRefused) {
  auto guarded = Sample();
  guarded.layout.globals[1].bytes = 65;
  EXPECT_FALSE(ParseLayout(LayoutBytes(guarded)).ok());
  guarded = Sample();
  guarded.layout.globals[0].offset = ~uint64_t{0};
  EXPECT_FALSE(ParseLayout(LayoutBytes(guarded)).ok());
  guarded = Sample();
  guarded.layout.relocations[0].offset = 153;
  EXPECT_FALSE(ParseLayout(LayoutBytes(guarded)).ok());
  guarded = Sample();
  guarded.layout.globals_image.resize(193);
  EXPECT_FALSE(ParseLayout(LayoutBytes(guarded)).ok());
  guarded = Sample();
  guarded.layout.consts[0].bytes = uint64_t{1} << 20;
  EXPECT_FALSE(ParseLayout(LayoutBytes(guarded)).ok());
  // The guard's words come before the constants.
  guarded = Sample();
  guarded.layout.consts[0].offset = 0;
  EXPECT_FALSE(ParseLayout(LayoutBytes(guarded)).ok());
  guarded = Sample();
  guarded.layout.globals_bytes = uint64_t{1} << 60;
  EXPECT_FALSE(ParseLayout(LayoutBytes(guarded)).ok());
}

}  // namespace
}  // namespace warpline::compiler
