#include "policy/bpf/program.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "policy/bpf/object.h"
#include "policy/bpf/testing/assembler.h"
#include "policy/bpf/testing/test_host.h"

namespace warpline::policy::bpf {
namespace {

using testing::Assemble;
using testing::MakeObject;
using testing::TestContext;
using testing::TestHost;

std::string Definition(uint32_t kind, uint32_t key_bytes, uint32_t cells, uint64_t capacity) {
  const MapDefinition definition = {kind, key_bytes, cells, 0, capacity};
  return std::string(reinterpret_cast<const char*>(&definition), sizeof(definition));
}

// Counts in cell 0 of key 7 of map 0, and returns the count.
const char* const kCounter =
    "u64 [ r10 - 8 ] = 7; r2 = r10; r2 += -8; r1 = map 0; r3 = 0; r4 = 1; call 2; exit";

std::string Counter(const std::string& maps) {
  return MakeObject("test", Assemble(kCounter), maps);
}

class ProgramTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Program>> Load(const std::string& bytes,
                                                const Program* previous = nullptr) {
    return Program::Load(bytes, host_.Interface(), previous);
  }
  std::string ReasonFor(const std::string& bytes) {
    return std::string(Load(bytes).status().message());
  }

  TestHost host_;
  const TestContext context_ = {.a = 5};
};

TEST_F(ProgramTest, RunsAHook) {
  const auto program = Load(MakeObject("test", Assemble("r0 = u64 [ r1 + 0 ]; exit")));
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE((*program)->Has(0));
  EXPECT_FALSE((*program)->Has(1));
  EXPECT_EQ((*program)->Run(0, &context_, sizeof(context_)), std::optional(uint64_t{5}));
  EXPECT_EQ((*program)->Run(1, &context_, sizeof(context_)), std::nullopt);
}

TEST_F(ProgramTest, DoesNotRunOnAContextThatIsTooSmall) {
  const auto program = Load(MakeObject("test", Assemble("r0 = 1; exit")));
  ASSERT_TRUE(program.ok());
  EXPECT_EQ((*program)->Run(0, &context_, sizeof(context_) - 1), std::nullopt);
}

TEST_F(ProgramTest, HelpersGetTheHost) {
  const auto program = Load(MakeObject("test", Assemble("r1 = 77; call 4; call 3; exit")));
  ASSERT_TRUE(program.ok());
  EXPECT_EQ((*program)->Run(0, &context_, sizeof(context_)), std::optional(uint64_t{1000}));
  EXPECT_EQ(host_.audited, std::vector<uint64_t>{77});
}

TEST_F(ProgramTest, SaysWhichProgramIsRefused) {
  EXPECT_EQ(ReasonFor(MakeObject("test", Assemble("exit"))),
            "test: pc 0: r0 is read, and was not written on every way to here");
  EXPECT_EQ(ReasonFor(MakeObject("on_sunday", Assemble("r0 = 0; exit"))),
            "there is no hook on_sunday");
}

TEST_F(ProgramTest, RefusesAnotherVersion) {
  HostInterface newer = host_.Interface();
  newer.abi_version = 2;
  EXPECT_EQ(Program::Load(MakeObject("test", Assemble("r0 = 0; exit")), newer).status().message(),
            "the policy was compiled for version 1 of warpline_policy.h, and this server has "
            "version 2");
}

TEST_F(ProgramTest, BoundsMemoryOfAllMaps) {
  EXPECT_EQ(ReasonFor(Counter(Definition(2, 8, 1, uint64_t{1} << 40))),
            "map map0 has a capacity of 1099511627776, and not of 1 to 1048576");
  EXPECT_EQ(ReasonFor(Counter(Definition(2, 8, 64, uint64_t{1} << 20))),
            "the maps take 1107296256 bytes, and 1048576 are allowed");
  // Each fits, and together they do not.
  const std::string half = Definition(1, 4, 8, 8192);
  EXPECT_EQ(Load(Counter(Definition(2, 8, 1, 1) + half + half)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Load(Counter(Definition(2, 8, 1, 1) + half)).ok());
}

TEST_F(ProgramTest, MapsAreCarriedOver) {
  const std::string maps = Definition(2, 8, 1, 4) + Definition(1, 4, 1, 4);
  auto first = Load(Counter(maps));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->Run(0, &context_, sizeof(context_)), std::optional(uint64_t{1}));

  const auto second = Load(Counter(maps), first->get());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->FindMap("map0"), (*first)->FindMap("map0"));
  EXPECT_EQ((*second)->FindMap("map1"), (*first)->FindMap("map1"));
  EXPECT_EQ((*second)->Run(0, &context_, sizeof(context_)), std::optional(uint64_t{2}));
  EXPECT_EQ((*first)->Run(0, &context_, sizeof(context_)), std::optional(uint64_t{3}));
  first->reset();
  EXPECT_EQ((*second)->Run(0, &context_, sizeof(context_)), std::optional(uint64_t{4}));
}

TEST_F(ProgramTest, MapsOfAnotherShapeBeginAnew) {
  const auto first = Load(Counter(Definition(2, 8, 1, 4)));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ((*first)->Run(0, &context_, sizeof(context_)), std::optional(uint64_t{1}));
  for (const std::string& other : {Definition(2, 8, 1, 5), Definition(2, 8, 2, 4),
                                   Definition(2, 4, 1, 4), Definition(1, 4, 1, 9)}) {
    const auto second = Load(Counter(other), first->get());
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_NE((*second)->FindMap("map0"), (*first)->FindMap("map0"));
    EXPECT_EQ((*second)->Run(0, &context_, sizeof(context_)), std::optional(uint64_t{1}));
  }
}

TEST_F(ProgramTest, MapsOfAnotherVersionBeginAnew) {
  const std::string object = Counter(Definition(2, 8, 1, 4));
  const auto first = Load(object);
  ASSERT_TRUE(first.ok());
  HostInterface newer = host_.Interface();
  newer.abi_version = 2;
  std::string recompiled = object;
  // The version is the only word that says 1 where its section begins.
  const size_t at = sizeof(uint64_t) * 8 + Assemble(kCounter).size() * sizeof(Instruction);
  ASSERT_EQ(recompiled[at], 1);
  recompiled[at] = 2;
  const auto second = Program::Load(recompiled, newer, first->get());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE((*second)->FindMap("map0"), (*first)->FindMap("map0"));
}

TEST_F(ProgramTest, FindsMapsByName) {
  const auto program = Load(Counter(Definition(2, 8, 1, 4)));
  ASSERT_TRUE(program.ok());
  EXPECT_EQ((*program)->maps().size(), 1u);
  EXPECT_NE((*program)->FindMap("map0"), nullptr);
  EXPECT_EQ((*program)->FindMap("map1"), nullptr);
}

}  // namespace
}  // namespace warpline::policy::bpf
