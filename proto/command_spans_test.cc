#include "proto/command_spans.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "proto/wire.h"

namespace warpline {
namespace {

constexpr uint64_t kMost = ~uint64_t{0};

template <typename Command>
std::string Body(const Command& command, const std::string& tail = "") {
  return std::string(reinterpret_cast<const char*>(&command), sizeof(command)) + tail;
}

template <typename Command>
MemorySpan Writes(const Command& command, const std::string& tail = "") {
  return WritesOf(CommandTraits<Command>::kId, Body(command, tail));
}

TEST(CommandSpansTest, ExtentsAreProductsOfFields) {
  const MemorySpan span = Writes(cmd::Memset{1, 4096, 10, 0, 4});
  EXPECT_EQ(span.address, 4096u);
  EXPECT_EQ(span.bytes, 40u);
  EXPECT_EQ(Writes(cmd::Memset{1, 4096, kMost / 2, 0, 4}).bytes, kMost);
}

TEST(CommandSpansTest, ATailCountsItsBytes) {
  const MemorySpan span = Writes(cmd::CopyToDevice{1, 8192}, "twelve bytes");
  EXPECT_EQ(span.address, 8192u);
  EXPECT_EQ(span.bytes, 12u);
}

TEST(CommandSpansTest, RowsEndWithTheLastRow) {
  cmd::MemsetRows rows;
  rows.dst = 4096;
  rows.pitch = 100;
  rows.columns = 10;
  rows.width = 2;
  rows.rows = 3;
  EXPECT_EQ(Writes(rows).bytes, 220u);
  rows.rows = 0;
  EXPECT_EQ(Writes(rows).bytes, 0u);
  rows.rows = kMost;
  EXPECT_EQ(Writes(rows).bytes, kMost);
}

TEST(CommandSpansTest, ABoxIsAsLongAsItsPitchesSay) {
  cmd::CopyBoxOnDevice box;
  box.dst = 4096;
  box.dst_pitch = 100;
  box.dst_slice = 1000;
  box.src = 1 << 20;
  box.src_pitch = 20;
  box.src_slice = 200;
  box.width = 20;
  box.height = 10;
  box.depth = 2;
  EXPECT_EQ(Writes(box).bytes, 1000u + 9 * 100 + 20);
  const MemorySpan read = ReadsOf(CommandId::kCopyBoxOnDevice, Body(box));
  EXPECT_EQ(read.address, 1u << 20);
  EXPECT_EQ(read.bytes, 400u);
  box.depth = 0;
  EXPECT_EQ(Writes(box).bytes, 0u);
  box.depth = kMost;
  EXPECT_EQ(Writes(box).bytes, kMost);
}

TEST(CommandSpansTest, OtherCommandsNameNoMemory) {
  EXPECT_EQ(WritesOf(CommandId::kLaunch, Body(cmd::Launch{})).bytes, 0u);
  EXPECT_EQ(ReadsOf(CommandId::kMemset, Body(cmd::Memset{1, 4096, 10, 0, 4})).bytes, 0u);
}

TEST(MemorySpanTest, TheLastByteOfTheAddressSpaceIsTheEnd) {
  EXPECT_TRUE(EndsInAddressSpace({kMost, 1}));
  EXPECT_TRUE(EndsInAddressSpace({0, kMost}));
  EXPECT_TRUE(EndsInAddressSpace({kMost, 0}));
  EXPECT_FALSE(EndsInAddressSpace({kMost, 2}));
  EXPECT_FALSE(EndsInAddressSpace({2, kMost}));
}

TEST(MemorySpanTest, WithinTakesNeitherWrappingNorReachingOver) {
  EXPECT_TRUE(Within({4096, 4096}, 4096, 4096));
  EXPECT_TRUE(Within({8192, 0}, 4096, 4096));
  EXPECT_FALSE(Within({4095, 1}, 4096, 4096));
  EXPECT_FALSE(Within({4097, 4096}, 4096, 4096));
  EXPECT_FALSE(Within({4096, kMost}, 4096, 4096));
  EXPECT_FALSE(Within({kMost, 2}, 4096, 4096));
}

}  // namespace
}  // namespace warpline
