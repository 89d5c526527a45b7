#include "server/device/gate/address_gate.h"

#include <cstring>

#include "gtest/gtest.h"

namespace warpline::device {
namespace {

constexpr uint64_t kBase = 0x300000000000;
constexpr uint64_t kBytes = uint64_t{1} << 32;
constexpr uint64_t kHost = 0x500000000000;
constexpr uint64_t kHostBytes = 4096;
constexpr uint64_t kVariables = 0x7f0000000000;
constexpr uint64_t kVariableBytes = 1 << 20;
constexpr MemoryUse kRead = MemoryUse::kRead;
constexpr MemoryUse kWrite = MemoryUse::kWrite;

// The first half of the arena is mapped, and its first byte for reading only.
class FakeFacts : public MemoryFacts {
 public:
  bool IsMapped(uint64_t address, uint64_t bytes, MemoryUse use) override {
    if (use == kWrite && address == kBase) return false;
    return address - kBase + bytes <= kBytes / 2;
  }
  bool FindVariables(uint64_t address, VariableBlock* block) override {
    ++asked;
    if (address < kVariables || address - kVariables >= kVariableBytes) return false;
    *block = {kVariables, kVariableBytes, 3};
    return true;
  }

  int asked = 0;
};

class AddressGateTest : public testing::Test {
 protected:
  AddressGateTest() {
    gate_.SetArena(kBase, kBytes);
    gate_.AddHost(kHost, kHostBytes);
    gate_.AddHost(kHost + kHostBytes, kHostBytes);
  }

  bool Admits(uint64_t address, uint64_t bytes, MemoryUse use = kRead) {
    return gate_.Admit(address, bytes, use).has_value();
  }

  FakeFacts facts_;
  AddressGate gate_{&facts_};
};

TEST_F(AddressGateTest, AdmitsNothingBeforeThereIsAnArena) {
  const AddressGate gate(&facts_);
  EXPECT_FALSE(gate.Admit(0, 0, kRead));
  EXPECT_FALSE(gate.Admit(kBase, 1, kRead));
  EXPECT_FALSE(gate.InArena(0, 0));
}

TEST_F(AddressGateTest, TellsWhereASpanLies) {
  const auto arena = gate_.Admit(kBase + 5, 7, kWrite);
  ASSERT_TRUE(arena);
  EXPECT_EQ(arena->kind(), MemoryKind::kArena);
  EXPECT_EQ(arena->address(), kBase + 5);
  EXPECT_EQ(arena->bytes(), 7u);
  const auto host = gate_.Admit(kHost + kHostBytes, kHostBytes, kWrite);
  ASSERT_TRUE(host);
  EXPECT_EQ(host->kind(), MemoryKind::kHost);
  EXPECT_EQ(host->host(), reinterpret_cast<void*>(kHost + kHostBytes));
  const auto variables = gate_.Admit(kVariables + 16, 16, kWrite);
  ASSERT_TRUE(variables);
  EXPECT_EQ(variables->kind(), MemoryKind::kVariables);
  EXPECT_EQ(variables->owner(), 3u);
}

TEST_F(AddressGateTest, TheBackendIsAskedOnlyOutsideTheArena) {
  EXPECT_TRUE(Admits(kBase, 64));
  EXPECT_TRUE(Admits(kHost, 64));
  EXPECT_EQ(facts_.asked, 0);
  EXPECT_TRUE(Admits(kVariables, 64));
  EXPECT_EQ(facts_.asked, 1);
}

TEST_F(AddressGateTest, RefusesWhatLeavesTheArena) {
  EXPECT_FALSE(Admits(kBase - 1, 1));
  EXPECT_FALSE(Admits(kBase - 1, 2));
  EXPECT_FALSE(Admits(kBase + kBytes, 1));
  EXPECT_FALSE(Admits(kBase + kBytes, 0));
  EXPECT_FALSE(Admits(kBase + kBytes / 2 - 1, 2));
  EXPECT_FALSE(Admits(kBase, kBytes + 1));
  EXPECT_FALSE(Admits(kBase + 1, ~uint64_t{0}));
  EXPECT_FALSE(Admits(~uint64_t{0}, 2));
  EXPECT_FALSE(Admits(0, 0));
  EXPECT_FALSE(Admits(0, ~uint64_t{0}));
}

TEST_F(AddressGateTest, RefusesWhatIsNotMappedForTheUse) {
  EXPECT_TRUE(Admits(kBase, 1, kRead));
  EXPECT_FALSE(Admits(kBase, 1, kWrite));
  EXPECT_FALSE(Admits(kBase + kBytes / 2, 1));
}

TEST_F(AddressGateTest, ASpanLiesInOneSegmentOfHostMemory) {
  EXPECT_TRUE(Admits(kHost, kHostBytes));
  EXPECT_FALSE(Admits(kHost, kHostBytes + 1));
  EXPECT_FALSE(Admits(kHost + kHostBytes - 1, 2));
  EXPECT_FALSE(Admits(kHost - 1, 2));
  EXPECT_FALSE(Admits(kHost + 2 * kHostBytes, 1));
  EXPECT_FALSE(Admits(kHost + 1, ~uint64_t{0}));
}

TEST_F(AddressGateTest, ASegmentThatIsGoneIsNotAdmitted) {
  EXPECT_FALSE(gate_.RemoveHost(kHost + 1, kHostBytes));
  EXPECT_FALSE(gate_.RemoveHost(kHost, kHostBytes - 1));
  EXPECT_TRUE(gate_.RemoveHost(kHost, kHostBytes));
  EXPECT_FALSE(gate_.RemoveHost(kHost, kHostBytes));
  EXPECT_FALSE(Admits(kHost, 1));
  EXPECT_TRUE(Admits(kHost + kHostBytes, 1));
}

TEST_F(AddressGateTest, HostMemoryMayLieElsewhereThanItIsNamed) {
  constexpr uint64_t kNamed = 0x510000000000;
  constexpr uint64_t kThere = 0x7fff00000000;
  gate_.AddHost(kNamed, kHostBytes, kThere);
  const auto span = gate_.Admit(kNamed + 64, kHostBytes - 64, kWrite);
  ASSERT_TRUE(span);
  EXPECT_EQ(span->kind(), MemoryKind::kHost);
  EXPECT_EQ(span->host(), reinterpret_cast<void*>(kThere + 64));
  EXPECT_EQ(span->named(), kNamed + 64);
  EXPECT_EQ(gate_.AdmitBox({kNamed, 32, 0}, {8, 2, 1}, kWrite)->place().address, kThere);
  EXPECT_FALSE(Admits(kThere, 1)) << "it has another name";
  EXPECT_FALSE(Admits(kNamed + 1, kHostBytes));
  EXPECT_FALSE(Admits(kNamed + kHostBytes, 1));
  EXPECT_FALSE(gate_.AdmitsWord({MemOp::kWrite32, 0, kNamed, 1})) << "it would be passed on so";
  EXPECT_TRUE(gate_.RemoveHost(kNamed, kHostBytes));
  EXPECT_FALSE(Admits(kNamed, 1));
}

TEST_F(AddressGateTest, ASpanLiesInOneBlockOfVariables) {
  EXPECT_TRUE(Admits(kVariables, kVariableBytes));
  EXPECT_FALSE(Admits(kVariables, kVariableBytes + 1));
  EXPECT_FALSE(Admits(kVariables + kVariableBytes - 1, 2));
  EXPECT_FALSE(Admits(kVariables + 1, ~uint64_t{0}));
}

TEST_F(AddressGateTest, LimitedVariablesAreAdmittedByName) {
  gate_.LimitVariables();
  EXPECT_FALSE(Admits(kVariables, 1));
  gate_.AddVariable(kVariables + 64, 16, kVariables + 64);
  gate_.AddVariable(kVariables + 80, 16, kVariables + 80);
  EXPECT_TRUE(Admits(kVariables + 64, 16, kWrite));
  EXPECT_TRUE(Admits(kVariables + 84, 12));
  EXPECT_FALSE(Admits(kVariables, 64, kWrite));
  EXPECT_FALSE(Admits(kVariables + 63, 2));
  EXPECT_FALSE(Admits(kVariables + 95, 2));
  EXPECT_FALSE(Admits(kVariables + 96, 1));
  EXPECT_FALSE(Admits(kVariables + 64, 32)) << "in two variables";
  EXPECT_FALSE(Admits(kVariables + 65, ~uint64_t{0}));
  EXPECT_FALSE(gate_.AdmitBox({kVariables + 64, 16, 0}, {8, 3, 1}, kWrite));
  gate_.RemoveVariable(kVariables + 64);
  EXPECT_FALSE(Admits(kVariables + 64, 1));
  EXPECT_TRUE(Admits(kVariables + 80, 16));
  EXPECT_TRUE(Admits(kBase, 64));
  EXPECT_TRUE(Admits(kHost, 64));
}

TEST_F(AddressGateTest, FindsTheMemoryOfModulesAndNoOther) {
  const auto block = gate_.FindVariables(kVariables + 70);
  ASSERT_TRUE(block);
  EXPECT_EQ(block->address, kVariables);
  EXPECT_EQ(block->bytes, kVariableBytes);
  EXPECT_EQ(block->owner, 3u);
  for (const uint64_t address : {kBase + 5, kHost + 5, kVariables + kVariableBytes, uint64_t{1}}) {
    EXPECT_FALSE(gate_.FindVariables(address)) << address;
  }
  // A block may hold what is not the tenant's.
  gate_.LimitVariables();
  EXPECT_FALSE(gate_.FindVariables(kVariables + 70));
  gate_.AddVariable(kVariables + 64, 16, kVariables + 64);
  gate_.AddVariable(kBase + kBytes / 4, 32, kVariables + 128);
  const auto variable = gate_.FindVariables(kVariables + 70);
  ASSERT_TRUE(variable);
  EXPECT_EQ(variable->address, kVariables + 64);
  EXPECT_EQ(variable->bytes, 16u);
  EXPECT_FALSE(gate_.FindVariables(kVariables + 80));
  const auto named = gate_.FindVariables(kBase + kBytes / 4 + 3);
  ASSERT_TRUE(named);
  EXPECT_EQ(named->address, kBase + kBytes / 4) << "by the name that commands have for it";
  EXPECT_EQ(named->bytes, 32u);
  EXPECT_FALSE(gate_.FindVariables(kVariables + 130));
}

TEST_F(AddressGateTest, AVariableThatIsNamedInTheArenaIsFoundWhereItIs) {
  constexpr uint64_t kNamed = kBase + kBytes / 4;
  gate_.LimitVariables();
  gate_.AddVariable(kNamed, 64, kVariables + 128);
  const auto span = gate_.Admit(kNamed + 8, 16, kWrite);
  ASSERT_TRUE(span);
  EXPECT_EQ(span->kind(), MemoryKind::kVariables);
  EXPECT_EQ(span->address(), kVariables + 136);
  EXPECT_EQ(span->named(), kNamed + 8);
  const auto box = gate_.AdmitBox({kNamed, 32, 0}, {8, 2, 1}, kWrite);
  ASSERT_TRUE(box);
  EXPECT_EQ(box->place().address, kVariables + 128);
  EXPECT_FALSE(Admits(kVariables + 128, 16)) << "it has another name";
  // What leaves it is memory of the arena.
  const auto across = gate_.Admit(kNamed + 60, 8, kRead);
  ASSERT_TRUE(across);
  EXPECT_EQ(across->kind(), MemoryKind::kArena);
  EXPECT_EQ(across->address(), kNamed + 60);
  const uint64_t removals = gate_.removals();
  gate_.RemoveVariable(kNamed);
  EXPECT_NE(gate_.removals(), removals);
  const auto after = gate_.Admit(kNamed + 8, 16, kWrite);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->kind(), MemoryKind::kArena);
}

TEST_F(AddressGateTest, WhereAttributesAreLimitedNoLaunchGoesBeforeOthers) {
  LaunchAttribute priority, cluster;
  priority.id = 8;
  cluster.id = 4;
  EXPECT_TRUE(gate_.AdmitsAttribute(priority));
  gate_.LimitAttributes();
  EXPECT_FALSE(gate_.AdmitsAttribute(priority));
  EXPECT_TRUE(gate_.AdmitsAttribute(cluster));
}

// The name of a variable does not make memory of it that the backend knows nothing of.
TEST_F(AddressGateTest, AVariableLiesInABlockOfTheBackend) {
  gate_.LimitVariables();
  gate_.AddVariable(0x1000, 64, 0x1000);
  EXPECT_FALSE(Admits(0x1000, 64));
}

// What a backend says of a block is not believed either.
TEST_F(AddressGateTest, ABlockHasToHoldTheAddress) {
  class Lying : public FakeFacts {
   public:
    bool FindVariables(uint64_t, VariableBlock* block) override {
      *block = {kVariables, kVariableBytes, 0};
      return true;
    }
  } lying;
  const AddressGate gate(&lying);
  EXPECT_TRUE(gate.Admit(kVariables, 1, kRead));
  EXPECT_FALSE(gate.Admit(kVariables - 1, 1, kRead));
  EXPECT_FALSE(gate.Admit(0x1000, 1, kRead));
}

TEST_F(AddressGateTest, SizesOfElementsDoNotOverflow) {
  EXPECT_TRUE(gate_.AdmitElements(kBase + 4, 4, 1, kWrite));
  EXPECT_FALSE(gate_.AdmitElements(kBase + 4, 4, (uint64_t{1} << 62) + 1, kWrite));
  EXPECT_FALSE(gate_.AdmitRows(kBase + 4, 64, 4, (uint64_t{1} << 62) + 1, 2, kWrite));
}

TEST_F(AddressGateTest, AllRowsOfABoxAreLookedAt) {
  const BoxExtent extent = {64, 2, 1};
  EXPECT_TRUE(gate_.AdmitBox({kBase + 64, 128, 0}, extent, kWrite));
  // The second row would be in variables, and before the arena.
  EXPECT_FALSE(gate_.AdmitBox({kBase + 64, kVariables - kBase, 0}, extent, kWrite));
  EXPECT_FALSE(gate_.AdmitBox({kBase + 64, uint64_t{0} - kBase, 0}, extent, kWrite));
  EXPECT_FALSE(gate_.AdmitRows(kBase + 64, kVariables - kBase, 4, 16, 2, kWrite));
  // The second slice would be.
  const uint64_t slice = (kVariables - kBase) / 64 * 64;
  EXPECT_FALSE(gate_.AdmitBox({kBase + 64, 64, slice}, {64, 1, 2}, kWrite));
  EXPECT_FALSE(gate_.AdmitBox({kBase + 64, 32, 0}, extent, kWrite)) << "no box";
}

TEST_F(AddressGateTest, WordsAreAlignedAndNoVariables) {
  EXPECT_TRUE(gate_.AdmitsWord({MemOp::kWrite32, 0, kBase + 4, 1}));
  EXPECT_FALSE(gate_.AdmitsWord({MemOp::kWrite64, 0, kBase + 4, 1}));
  EXPECT_TRUE(gate_.AdmitsWord({MemOp::kWait32, 0, kHost + kHostBytes - 4, 1}));
  EXPECT_FALSE(gate_.AdmitsWord({MemOp::kWait64, 0, kHost + 2 * kHostBytes - 4, 1}));
  EXPECT_FALSE(gate_.AdmitsWord({MemOp::kWrite32, 0, kVariables, 1}));
  EXPECT_FALSE(gate_.AdmitsWord({MemOp::kWrite32, 0, 0x1000, 1}));
  EXPECT_FALSE(gate_.AdmitsWord({MemOp::kWrite32, 0, kBase, 1})) << "only for reading";
  EXPECT_TRUE(gate_.AdmitsWord({MemOp::kWait32, 0, kBase, 1}));
}

TEST_F(AddressGateTest, HintsAboutOtherMemoryAreNotAdmitted) {
  LaunchAttribute attribute;
  attribute.id = 1;
  const auto window = [&](uint64_t address, uint64_t bytes) {
    std::memcpy(attribute.value.data(), &address, sizeof(address));
    std::memcpy(attribute.value.data() + 8, &bytes, sizeof(bytes));
    return gate_.AdmitsAttribute(attribute);
  };
  EXPECT_TRUE(window(kBase, 4096));
  EXPECT_TRUE(window(0x1000, 0));
  EXPECT_FALSE(window(0x1000, 1));
  gate_.AddHost(0x520000000000, 4096, 0x7fff00000000);
  EXPECT_FALSE(window(0x520000000000, 4096)) << "it would be passed on so";
  EXPECT_FALSE(window(kBase, kBytes + 1));
  attribute.id = 8;
  EXPECT_TRUE(window(0x1000, 1));
}

}  // namespace
}  // namespace warpline::device
