#include "common/mapped_memory.h"

#include <utility>

#include "absl/status/status.h"
#include "common/sealed_memory.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

constexpr uint64_t kBytes = 4u << 20;

TEST(MappedMemoryTest, MappingsOfOneDescriptorShowTheSameMemory) {
  const auto fd = NewSealedMemory("test", kBytes);
  ASSERT_TRUE(fd.ok()) << fd.status();
  auto one = MappedMemory::Map(fd->get(), kBytes);
  const auto other = MappedMemory::Map(fd->get(), kBytes);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->bytes(), kBytes);
  EXPECT_TRUE(one->Populate().ok());
  one->data()[kBytes - 1] = 'x';
  EXPECT_EQ(other->data()[kBytes - 1], 'x');
  const MappedMemory moved = *std::move(one);
  EXPECT_EQ(moved.data()[kBytes - 1], 'x');
}

TEST(MappedMemoryTest, WhatCannotBeMappedIsSaid) {
  const auto mapped = MappedMemory::Map(-1, kBytes);
  EXPECT_TRUE(absl::IsResourceExhausted(mapped.status())) << mapped.status();
}

}  // namespace
}  // namespace warpline
