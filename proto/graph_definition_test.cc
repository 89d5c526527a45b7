#include "proto/graph_definition.h"

#include <cstring>

#include "gtest/gtest.h"

namespace warpline {
namespace {

constexpr auto kMemset = static_cast<uint32_t>(CommandId::kMemset);
constexpr auto kLaunch = static_cast<uint32_t>(CommandId::kLaunch);

template <typename Command>
std::string_view Fields(const Command& command) {
  return {reinterpret_cast<const char*>(&command), sizeof(command)};
}

TEST(GraphDefinitionTest, StepsComeBackAsTheyWere) {
  const cmd::Memset memset = {0, 0x1000, 8, 7, 1};
  const cmd::Launch launch = {.stream = 0, .kernel = 5, .grid_x = 2};
  std::string definition;
  AppendGraphStep(kMemset, {}, Fields(memset), {}, &definition);
  AppendGraphStep(0, {0}, {}, {}, &definition);
  AppendGraphStep(kLaunch, {0, 1}, Fields(launch), "params", &definition);
  EXPECT_EQ(definition.size() % 8, 0u);
  std::string_view rest = definition;
  GraphStep step;
  ASSERT_TRUE(TakeGraphStep(&rest, 0, &step));
  EXPECT_EQ(step.command, kMemset);
  EXPECT_EQ(step.fields, Fields(memset));
  ASSERT_TRUE(TakeGraphStep(&rest, 1, &step));
  EXPECT_EQ(step.command, 0u);
  ASSERT_TRUE(TakeGraphStep(&rest, 2, &step));
  EXPECT_EQ(step.after, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(step.tail, "params");
  EXPECT_TRUE(rest.empty());
}

TEST(GraphDefinitionTest, ConditionalStepsHaveBodies) {
  const ConditionalStep conditional = {0x1234567890, 1, 2};
  std::string definition;
  AppendGraphStep(kConditionalStep, {}, Fields(conditional), {}, &definition);
  AppendGraphStep(0, {}, {}, {}, &definition, 2);
  std::string_view rest = definition;
  GraphStep step;
  ASSERT_TRUE(TakeGraphStep(&rest, 0, &step));
  EXPECT_EQ(step.command, kConditionalStep);
  EXPECT_EQ(step.body, 0u);
  EXPECT_EQ(step.fields, Fields(conditional));
  ASSERT_TRUE(TakeGraphStep(&rest, 1, &step));
  EXPECT_EQ(step.command, 0u);
  EXPECT_EQ(step.body, 2u);
  definition.clear();
  AppendGraphStep(kConditionalStep, {}, "too short", {}, &definition);
  rest = definition;
  EXPECT_FALSE(TakeGraphStep(&rest, 0, &step));
}

TEST(GraphDefinitionTest, AStepComesAfterEarlierOnesOnly) {
  const std::vector<std::vector<uint32_t>> wrong = {{2}, {0, 0}, {1, 0}, {0, 1, 2}};
  for (const auto& after : wrong) {
    std::string definition;
    AppendGraphStep(0, after, {}, {}, &definition);
    std::string_view rest = definition;
    GraphStep step;
    EXPECT_FALSE(TakeGraphStep(&rest, 2, &step));
  }
}

TEST(GraphDefinitionTest, OnlyCommandsOfGraphsAreTaken) {
  for (uint32_t id = 0; id <= static_cast<uint32_t>(kCommandCount) + 1; ++id) {
    const bool known = id > 0 && id <= static_cast<uint32_t>(kCommandCount);
    const bool taken = id == 0 || (known && IsGraphCommand(static_cast<CommandId>(id)));
    std::string definition;
    const std::string fields(known ? kCommandTable[id - 1].body_bytes : 0, '\0');
    AppendGraphStep(id, {}, fields, {}, &definition);
    std::string_view rest = definition;
    GraphStep step;
    EXPECT_EQ(TakeGraphStep(&rest, 0, &step), taken) << id;
  }
}

TEST(GraphDefinitionTest, WhatIsCutOffOrTooLongIsRefused) {
  const cmd::Launch launch = {.stream = 0, .kernel = 5};
  std::string definition;
  AppendGraphStep(kLaunch, {0, 1}, Fields(launch), "parameters", &definition);
  GraphStep step;
  for (size_t size = 0; size < definition.size(); ++size) {
    std::string_view rest = std::string_view(definition).substr(0, size);
    EXPECT_FALSE(TakeGraphStep(&rest, 2, &step)) << size;
  }
  for (const size_t at : {4, 8, 12}) {
    std::string changed = definition;
    std::memset(changed.data() + at, 0xff, 4);
    std::string_view rest = changed;
    EXPECT_FALSE(TakeGraphStep(&rest, 2, &step)) << at;
  }
}

}  // namespace
}  // namespace warpline
