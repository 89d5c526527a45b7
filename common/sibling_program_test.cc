#include "common/sibling_program.h"

#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(SiblingProgramTest, OwnFolderHasTheRunningProgram) {
  const auto folder = OwnFolder();
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(access((*folder + "/sibling_program_test").c_str(), X_OK), 0) << *folder;
}

TEST(SiblingProgramTest, UnknownOneNamesThePlacesLookedIn) {
  const auto found = FindSibling("warpline-no-such", "worker");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(found.status().message()), testing::HasSubstr("worker/warpline-no-such"));
}

}  // namespace
}  // namespace warpline
