#include "server/gpu_server/policies/dispatch_policies.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "policy/band.h"
#include "policy/bpf/testing/assembler.h"
#include "transport/testing/temp_folder.h"

namespace warpline::server {
namespace {

using ::testing::HasSubstr;

class DispatchPoliciesTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& bytes) {
    const std::string path = folder_.path() + "/mine.bpf.o";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static std::string Holds() {
    return policy::bpf::testing::MakeObject("on_dispatch",
                                            policy::bpf::testing::Assemble("r0 = 2; exit"));
  }

  warpline::testing::TempFolder folder_;
};

TEST_F(DispatchPoliciesTest, BeginsWithABuiltInOne) {
  auto made = MakeDispatchPolicies({.policy = "fifo"});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->book->State().in_use, "fifo");
  EXPECT_EQ(made->dispatcher->SetPolicy(std::make_shared<policy::Band>())->name(), "fifo");
}

TEST_F(DispatchPoliciesTest, WhatTheBookUsesTheDispatcherAsks) {
  auto made = MakeDispatchPolicies({});
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_TRUE(made->book->Load("mine", Holds()).ok());
  ASSERT_EQ(made->book->Use("mine"), absl::OkStatus());
  EXPECT_EQ(made->dispatcher->SetPolicy(std::make_shared<policy::Band>())->name(), "mine");
}

TEST_F(DispatchPoliciesTest, BeginsWithAFile) {
  const std::string path = Write(Holds());
  auto made = MakeDispatchPolicies({.policy = path});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->book->State().in_use, "dispatch-file");
  EXPECT_EQ(made->book->State().former, "band");
}

TEST_F(DispatchPoliciesTest, AFileThatIsNoPolicyIsRefusedByItsName) {
  const std::string path = Write("nothing of the kind");
  const auto refused = MakeDispatchPolicies({.policy = path}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(path));
  EXPECT_TRUE(absl::IsNotFound(MakeDispatchPolicies({.policy = "./not-there.o"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(MakeDispatchPolicies({.policy = "lottery"}).status()));
}

}  // namespace
}  // namespace warpline::server
