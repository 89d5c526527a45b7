#include "server/device/gate/library_gate.h"

#include "gtest/gtest.h"

namespace warpline::device {
namespace {

constexpr uint64_t kBase = 0x300000000000;
constexpr uint64_t kBytes = uint64_t{1} << 32;

class AllMapped : public MemoryFacts {
 public:
  bool IsMapped(uint64_t, uint64_t, MemoryUse) override { return true; }
  bool FindVariables(uint64_t, VariableBlock*) override { return false; }
};

class LibraryGateTest : public testing::Test {
 protected:
  LibraryGateTest() { gate_.SetArena(kBase, kBytes); }

  AllMapped facts_;
  AddressGate gate_{&facts_};
};

TEST_F(LibraryGateTest, AddressesLeadToSpansInTheArena) {
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, kBytes - 1, kBytes}) {
    const auto bounds = BoundsOfAddresses(gate_, bytes);
    ASSERT_TRUE(bounds.has_value());
    EXPECT_EQ(bounds->first, kBase);
    EXPECT_EQ(bounds->last + bytes, kBase + kBytes);
    EXPECT_TRUE(gate_.InArena(bounds->last, bytes));
  }
  EXPECT_FALSE(BoundsOfAddresses(gate_, kBytes + 1).has_value());
  EXPECT_FALSE(BoundsOfAddresses(gate_, ~uint64_t{0}).has_value());
  const AddressGate none(&facts_);
  EXPECT_FALSE(BoundsOfAddresses(none, 1).has_value());
}

}  // namespace
}  // namespace warpline::device
