#include "common/cuda/sm_path.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace warpline {
namespace {

SmStep Taking(uint32_t group, uint32_t groups) {
  SmStep step;
  step.least = 8;
  step.groups = groups;
  step.Take(group);
  return step;
}

std::string Bytes(const std::vector<SmStep>& path) {
  return {reinterpret_cast<const char*>(path.data()), path.size() * sizeof(SmStep)};
}

bool IsPath(const std::vector<SmStep>& path) {
  std::vector<SmStep> read;
  return ReadSmPath(Bytes(path), &read);
}

TEST(SmPathTest, WhatWasWrittenIsRead) {
  SmStep second = Taking(200, 256);
  second.flags = 1;
  second.rest = 1;
  std::vector<SmStep> read;
  ASSERT_TRUE(ReadSmPath(Bytes({Taking(3, 4), second}), &read));
  ASSERT_EQ(read.size(), 2u);
  EXPECT_TRUE(read[0].Takes(3));
  EXPECT_FALSE(read[0].Takes(2));
  EXPECT_EQ(read[0].least, 8u);
  EXPECT_TRUE(read[1].Takes(200));
  EXPECT_EQ(read[1].flags, 1u);
  EXPECT_EQ(read[1].rest, 1u);
  ASSERT_TRUE(ReadSmPath("", &read));
  EXPECT_TRUE(read.empty());
}

TEST(SmPathTest, OtherBytesAreNoPath) {
  std::vector<SmStep> read;
  EXPECT_FALSE(ReadSmPath(std::string(47, '\0'), &read));
  EXPECT_FALSE(ReadSmPath(Bytes({Taking(0, 1)}) + "x", &read));
  EXPECT_FALSE(IsPath(std::vector<SmStep>(kMaxSmSteps + 1, Taking(0, 1))));
  EXPECT_TRUE(IsPath(std::vector<SmStep>(kMaxSmSteps, Taking(0, 1))));
}

TEST(SmPathTest, AStepTakesWhatItMakes) {
  EXPECT_FALSE(IsPath({Taking(4, 4)}));
  EXPECT_FALSE(IsPath({Taking(0, 0)}));
  EXPECT_FALSE(IsPath({Taking(0, kMaxSmGroups + 1)}));
  SmStep nothing;
  nothing.groups = 1;
  EXPECT_FALSE(IsPath({nothing}));
  nothing.rest = 1;
  EXPECT_TRUE(IsPath({nothing}));
  nothing.rest = 2;
  EXPECT_FALSE(IsPath({nothing}));
}

}  // namespace
}  // namespace warpline
