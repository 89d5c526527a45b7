// Random and mutated programs: what the verifier accepts does the same in the interpreter as in the
// model, where nothing outside exists, and stays within its bounds.
//
// Run with a sanitizer it also looks for what the interpreter touches: ./dev test --asan. More
// programs: --programs=1000000.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "gtest/gtest.h"
#include "policy/bpf/interpreter.h"
#include "policy/bpf/testing/generator.h"
#include "policy/bpf/testing/model.h"
#include "policy/bpf/testing/test_host.h"
#include "policy/bpf/verify.h"

ABSL_FLAG(uint64_t, programs, 20000, "How many programs are made.");
ABSL_FLAG(uint64_t, seed, 1, "What they are made from.");

namespace warpline::policy::bpf {
namespace {

using testing::Generator;
using testing::Model;
using testing::TestContext;
using testing::TestHost;

// A context between bytes that a program has no business with.
struct Guarded {
  std::array<uint8_t, 256> before;
  alignas(8) TestContext context;
  std::array<uint8_t, 256> after;

  Guarded() { Fill(0xaa); }
  void Fill(uint8_t pattern) {
    before.fill(pattern);
    after.fill(pattern);
  }
  bool IsIntact(uint8_t pattern, const TestContext& expected) const {
    const auto is_pattern = [&](uint8_t byte) { return byte == pattern; };
    return std::all_of(before.begin(), before.end(), is_pattern) &&
           std::all_of(after.begin(), after.end(), is_pattern) &&
           std::memcmp(&context, &expected, sizeof(expected)) == 0;
  }
};

struct Counts {
  uint64_t made = 0, accepted = 0, runs = 0, instructions = 0, steps = 0;
};

Model::Entries ContentOf(const Map& map) {
  Model::Entries entries;
  for (Map::Entry& entry : map.Entries()) entries[entry.key] = std::move(entry.cells);
  return entries;
}

TestContext RandomContext(Generator* generator) {
  TestContext context;
  context.a = generator->Any() >> generator->Below(64);
  context.b = static_cast<uint32_t>(generator->Any() >> generator->Below(64));
  context.c = static_cast<int32_t>(generator->Any());
  context.d = static_cast<uint16_t>(generator->Any());
  context.hidden = 0xdead;
  context.e = static_cast<uint32_t>(generator->Below(10));
  context.f = generator->Any();
  return context;
}

// Runs an accepted program several times, so that it finds what it left in its maps.
void RunBoth(const std::vector<Instruction>& code, Generator* generator, Counts* counts) {
  const std::vector<MapShape> shapes = testing::TestMaps();
  std::vector<std::shared_ptr<Map>> maps;
  for (const MapShape& shape : shapes) maps.push_back(std::make_shared<Map>(shape));
  TestHost host;
  Model model(shapes);
  const Executable executable(code, maps, testing::TestHelpers());
  for (int run = 0; run < 3; ++run) {
    const auto guarded = std::make_unique<Guarded>();
    const TestContext context = RandomContext(generator);
    guarded->context = context;
    // What lies around must not make a difference either.
    const auto pattern = static_cast<uint8_t>(generator->Any());
    guarded->Fill(pattern);
    const std::optional<uint64_t> verdict = executable.Run(&guarded->context, &host);
    model.Run(code, context);
    ASSERT_EQ(model.fault(), "");
    ASSERT_LE(model.steps(), code.size());
    ASSERT_EQ(verdict, std::optional(model.verdict()));
    ASSERT_TRUE(guarded->IsIntact(pattern, context));
    counts->steps += model.steps();
    ++counts->runs;
  }
  ASSERT_EQ(host.audited, model.audited);
  ASSERT_EQ(host.now_ns, model.now_ns);
  for (size_t i = 0; i < maps.size(); ++i) ASSERT_EQ(ContentOf(*maps[i]), model.maps()[i]);
}

std::string Listing(const std::vector<Instruction>& code) {
  std::string text;
  for (const Instruction& i : code) {
    std::array<char, 64> line;
    std::snprintf(line.data(), line.size(), "raw 0x%02x 0x%02x %d %d\n", i.opcode, i.registers,
                  i.offset, i.immediate);
    text += line.data();
  }
  return text;
}

TEST(Soundness, AcceptedProgramsDoWhatTheModelDoes) {
  Generator generator(absl::GetFlag(FLAGS_seed));
  const uint64_t programs = absl::GetFlag(FLAGS_programs);
  std::vector<std::vector<Instruction>> accepted;  // To be mutated.
  Counts counts;
  while (counts.made < programs && !HasFatalFailure()) {
    const bool mutates = !accepted.empty() && generator.Below(2) == 0;
    std::vector<Instruction> code =
        mutates ? generator.Mutate(accepted[generator.Below(accepted.size())]) : generator.Make();
    ++counts.made;
    const absl::Status verified =
        Verify(code, testing::TestHook(), testing::TestMaps(), testing::TestHelpers());
    if (!verified.ok()) {
      ASSERT_EQ(verified.message().substr(0, 3), "pc ") << verified;
      continue;
    }
    ++counts.accepted;
    counts.instructions += code.size();
    RunBoth(code, &generator, &counts);
    if (HasFatalFailure()) {
      ADD_FAILURE() << "program " << counts.made << ":\n" << Listing(code);
    }
    if (accepted.size() < 500) {
      accepted.push_back(std::move(code));
    } else {
      accepted[generator.Below(accepted.size())] = std::move(code);
    }
  }
  std::printf(
      "made %llu, accepted %llu (%.1f instructions on average), runs %llu (%.1f steps on "
      "average)\n",
      static_cast<unsigned long long>(counts.made),
      static_cast<unsigned long long>(counts.accepted),
      static_cast<double>(counts.instructions) / static_cast<double>(counts.accepted),
      static_cast<unsigned long long>(counts.runs),
      static_cast<double>(counts.steps) / static_cast<double>(counts.runs));
  // Otherwise this tests the verifier's refusals alone.
  EXPECT_GT(counts.accepted, counts.made / 10);
}

}  // namespace
}  // namespace warpline::policy::bpf

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  absl::ParseCommandLine(argc, argv);
  return RUN_ALL_TESTS();
}
