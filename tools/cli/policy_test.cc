#include "tools/cli/policy.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

using testing::HasSubstr;

TEST(PolicyTest, NamesComeFromFiles) {
  EXPECT_EQ(PolicyNameOf("mine.bpf.o"), "mine");
  EXPECT_EQ(PolicyNameOf("/etc/policies/mine.o"), "mine");
  EXPECT_EQ(PolicyNameOf("a.b/mine"), "mine");
}

TEST(PolicyTest, WhatNoServerWouldTakeIsNotAccepted) {
  EXPECT_TRUE(absl::IsInvalidArgument(CheckPolicy("nothing of the kind").status()));
}

TEST(PolicyTest, TheReportSaysWhatIsUsedAndWhatFailed) {
  warpline_internal::PolicyReply reply;
  auto* const built_in = reply.add_policies();
  built_in->set_name("band");
  built_in->set_built_in(true);
  built_in->set_in_use(true);
  auto* const loaded = reply.add_policies();
  loaded->set_name("mine");
  loaded->add_hooks("on_dispatch");
  loaded->set_sha256(std::string(64, 'a'));
  reply.set_former("mine");
  reply.set_failure("mine: it had all wait");
  const std::string text = PoliciesReport(reply);
  EXPECT_THAT(text, HasSubstr("band    now     built in"));
  EXPECT_THAT(text, HasSubstr("mine    before"));
  EXPECT_THAT(text, HasSubstr("on_dispatch  aaaaaaaaaaaa"));
  EXPECT_THAT(text, HasSubstr("replaced by band 0s ago: mine: it had all wait"));
}

}  // namespace
}  // namespace warpline::cli
