#include "server/gpu_server/policies/policy_book.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "policy/bpf/map.h"
#include "policy/bpf/testing/assembler.h"
#include "policy/builtin.h"
#include "policy/policy.h"
#include "proto/admin.pb.h"
#include "server/gpu_server/policies/policy_methods.h"

namespace warpline::server {
namespace {

using policy::Action;
using policy::bpf::testing::Assemble;
using policy::bpf::testing::MakeObject;
using testing::HasSubstr;
using warpline_internal::PolicyReply;
using warpline_internal::PolicyRequest;

class PolicyBookTest : public testing::Test {
 protected:
  static std::string Says(const std::string& program) {
    return MakeObject("on_dispatch", Assemble(program));
  }
  PolicyBookOptions Options() {
    return {.first = "band",
            .use = [this](std::shared_ptr<policy::Policy> policy) { asked_ = std::move(policy); },
            .now_ns = [] { return uint64_t{5}; },
            .audit = [this](const std::string& name,
                            uint64_t code) { notes_.push_back(absl::StrCat(name, " ", code)); }};
  }
  Action Asked() { return asked_->OnDispatch({}).action; }
  absl::StatusOr<PolicyReply> Ask(PolicyRequest::Action action, const std::string& name = "",
                                  const std::string& object = "") {
    PolicyRequest request;
    request.set_action(action);
    request.set_name(name);
    request.set_object(object);
    const auto answer = AnswerPolicy(&book_, request.SerializeAsString());
    if (!answer.ok()) return answer.status();
    PolicyReply reply;
    EXPECT_TRUE(reply.ParseFromString(*answer));
    return reply;
  }

  std::shared_ptr<policy::Policy> asked_;
  std::vector<std::string> notes_;
  PolicyBook book_{Options()};
};

TEST_F(PolicyBookTest, ALoadedPolicyIsAskedOnceItIsSwappedTo) {
  const auto loaded = book_.Load("holds", Says("r0 = 2; exit"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->hooks, std::vector<std::string>({"on_dispatch"}));
  EXPECT_EQ(loaded->sha256.size(), 64u);
  EXPECT_EQ(asked_, nullptr);
  ASSERT_EQ(book_.Use("holds"), absl::OkStatus());
  EXPECT_EQ(Asked(), Action::kHold);
  EXPECT_EQ(book_.State().in_use, "holds");
  EXPECT_EQ(book_.State().former, "band");
  ASSERT_EQ(book_.Use("fifo"), absl::OkStatus());
  EXPECT_EQ(Asked(), Action::kRun);
}

TEST_F(PolicyBookTest, RollingBackGoesToTheOneBeforeAndForthAgain) {
  EXPECT_TRUE(absl::IsFailedPrecondition(book_.RollBack().status()));
  ASSERT_TRUE(book_.Load("skips", Says("r0 = 3; exit")).ok());
  ASSERT_EQ(book_.Use("skips"), absl::OkStatus());
  EXPECT_EQ(*book_.RollBack(), "band");
  EXPECT_EQ(Asked(), Action::kScore);
  EXPECT_EQ(*book_.RollBack(), "skips");
  EXPECT_EQ(Asked(), Action::kSkip);
}

TEST_F(PolicyBookTest, AVersionThatRunsGoesOnUntilTheNextSwap) {
  ASSERT_TRUE(book_.Load("mine", Says("r0 = 2; exit")).ok());
  ASSERT_EQ(book_.Use("mine"), absl::OkStatus());
  ASSERT_TRUE(book_.Load("mine", Says("r0 = 3; exit")).ok());
  EXPECT_EQ(Asked(), Action::kHold);
  ASSERT_EQ(book_.Use("mine"), absl::OkStatus());
  EXPECT_EQ(Asked(), Action::kSkip);
  EXPECT_EQ(*book_.RollBack(), "mine");
  EXPECT_EQ(Asked(), Action::kHold);
}

TEST_F(PolicyBookTest, RefusalsSayWhyAndChangeNothing) {
  const auto refused = book_.Load("loops", Says("again: goto again"));
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("pc 0"));
  EXPECT_TRUE(absl::IsInvalidArgument(book_.Load("noise", "no object").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(book_.Load("..", Says("r0 = 2; exit")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(book_.Load("band", Says("r0 = 2; exit")).status()));
  for (const char* name : {"", "a b", "../etc", "a\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(book_.Load(name, Says("r0 = 2; exit")).status())) << name;
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(book_.Load(std::string(65, 'a'), Says("r0 = 2; exit")).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(
      book_.Load("large", std::string(PolicyBook::kMostObjectBytes + 1, 'x')).status()));
  EXPECT_TRUE(absl::IsNotFound(book_.Use("loops")));
  EXPECT_TRUE(absl::IsNotFound(book_.Remove("loops")));
  EXPECT_EQ(asked_, nullptr);
  EXPECT_EQ(book_.State().in_use, "band");
}

TEST_F(PolicyBookTest, HoldsSoManyAndNoMore) {
  for (size_t i = 0; i < PolicyBook::kMostLoaded; ++i) {
    ASSERT_TRUE(book_.Load(absl::StrCat("p", i), Says("r0 = 2; exit")).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(book_.Load("more", Says("r0 = 2; exit")).status()));
  EXPECT_TRUE(book_.Load("p3", Says("r0 = 3; exit")).ok()) << "a new version";
  ASSERT_EQ(book_.Use("p3"), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(book_.Remove("p3")));
  EXPECT_EQ(book_.Remove("p4"), absl::OkStatus());
  EXPECT_TRUE(book_.Load("more", Says("r0 = 2; exit")).ok());
}

TEST_F(PolicyBookTest, OneThatFailsIsReplacedAndNotGoneBackTo) {
  ASSERT_TRUE(book_.Load("holds", Says("r0 = 2; exit")).ok());
  ASSERT_EQ(book_.Use("fifo"), absl::OkStatus());
  ASSERT_EQ(book_.Use("holds"), absl::OkStatus());
  const auto failed = asked_;
  book_.OnFailed(failed.get(), "it had all wait");
  EXPECT_EQ(Asked(), Action::kScore);
  EXPECT_EQ(book_.State().in_use, "band");
  EXPECT_EQ(book_.State().failure, "holds: it had all wait");
  EXPECT_EQ(*book_.RollBack(), "fifo");
  // It is not in use any more.
  book_.OnFailed(failed.get(), "again");
  EXPECT_EQ(book_.State().in_use, "fifo");
  EXPECT_EQ(book_.State().failure, "holds: it had all wait");
}

TEST_F(PolicyBookTest, NotesOfPoliciesCarryTheirNames) {
  ASSERT_TRUE(book_.Load("talks", Says("r1 = 42; call 4; r0 = 1; exit")).ok());
  ASSERT_EQ(book_.Use("talks"), absl::OkStatus());
  EXPECT_EQ(Asked(), Action::kRun);
  EXPECT_EQ(notes_, std::vector<std::string>({"talks 42"}));
}

TEST_F(PolicyBookTest, TheMethodSaysHowThingsAreAfterwards) {
  const int built_in = static_cast<int>(policy::PolicyNames().size());
  EXPECT_EQ(Ask(PolicyRequest::LIST)->policies_size(), built_in);
  const auto loaded = Ask(PolicyRequest::LOAD, "mine", Says("r0 = 2; exit"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->policies(built_in).name(), "mine");
  EXPECT_FALSE(loaded->policies(built_in).in_use());
  EXPECT_TRUE(Ask(PolicyRequest::SWAP, "mine")->policies(built_in).in_use());
  EXPECT_EQ(Ask(PolicyRequest::ROLL_BACK)->in_use(), "band");
  EXPECT_EQ(Ask(PolicyRequest::REMOVE, "mine")->policies_size(), built_in);
  EXPECT_TRUE(absl::IsNotFound(Ask(PolicyRequest::SWAP, "mine").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Ask(static_cast<PolicyRequest::Action>(77)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(AnswerPolicy(&book_, "\xff\xff").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(AnswerPolicy(nullptr, "").status()));
}

TEST_F(PolicyBookTest, ChangesAreRecordedAndQuestionsAreNot) {
  PolicyRequest request;
  EXPECT_FALSE(DescribePolicy(request.SerializeAsString()).has_value());
  EXPECT_FALSE(DescribePolicy("\xff\xff").has_value());
  request.set_action(PolicyRequest::LOAD);
  request.set_name("mine");
  request.set_object("some");
  const auto record = DescribePolicy(request.SerializeAsString());
  ASSERT_TRUE(record.has_value());
  ASSERT_EQ(record->texts.size(), 3u);
  EXPECT_EQ(record->texts[0].second, "load");
  EXPECT_EQ(record->texts[2].second.size(), 64u);
}

}  // namespace
}  // namespace warpline::server
