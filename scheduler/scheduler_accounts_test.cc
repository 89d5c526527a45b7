// Tenants whose credentials are the tokens of a Kubernetes cluster's ServiceAccounts.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/audit_log.h"
#include "common/log/log_capture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/scheduler.h"
#include "scheduler/scheduler_fixture.h"
#include "scheduler/service_accounts/account_gate.h"
#include "scheduler/service_accounts/testing/test_cluster.h"
#include "transport/testing/temp_folder.h"

namespace warpline::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Code = absl::StatusCode;

class SchedulerAccountsTest : public SchedulerTest {
 protected:
  void SetUp() override {
    std::ofstream(keys_.path() + "/jwks") << Jwks({&key_});
    TakeTokens("");
    SchedulerTest::SetUp();
    if (IsSkipped()) return;
    TenantNamed("team", {"team", "team-dev"});
    TenantNamed("shared", {});
    Tell(Report("a"));
  }

  void TakeTokens(const std::string& default_tenant) {
    AccountGateOptions options;
    options.keys_path = keys_.path() + "/jwks";
    options.rules = {.issuer = kTestIssuer, .audience = "warpline"};
    options.default_tenant = default_tenant;
    options.clock = [this] { return now_; };
    auto gate = AccountGate::Create(std::move(options));
    ASSERT_TRUE(gate.ok()) << gate.status();
    accounts_ = *std::move(gate);
  }

  std::string TenantNamed(const std::string& name, const std::vector<std::string>& namespaces) {
    warpline_internal::TenantRequest request;
    for (const auto& each : namespaces) request.mutable_namespaces()->add_names(each);
    return AddTenant(name, 8, 0, 0, request);
  }

  absl::Status SetNamespaces(const std::string& tenant, const std::vector<std::string>& names) {
    warpline_internal::TenantRequest request;
    request.set_credential("operator");
    request.set_name(tenant);
    request.mutable_namespaces();  // No names take all away.
    for (const auto& each : names) request.mutable_namespaces()->add_names(each);
    return scheduler_->PutTenant(request).status();
  }

  std::string TokenOf(const std::string& name_space) const {
    return TestToken(key_, TestClaims(name_space));
  }

  const testing::TempFolder keys_;
  const TestKey key_ = TestKey::Ec("cluster");
};

INSTANTIATE_TEST_SUITE_P(States, SchedulerAccountsTest, kStateKinds, StateKindName);

TEST_P(SchedulerAccountsTest, ATokenActsAsTheTenantOfItsNamespace) {
  LogCapture log;
  for (const char* name_space : {"team", "team-dev"}) {
    const auto lease = Acquire(1, TokenOf(name_space));
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ(lease->tenant(), "team");
  }
  EXPECT_THAT(log.LinesWith("service_account=team-dev/default pod=train-0"), SizeIs(1));
  // All of the tenant's limits hold for them together.
  EXPECT_EQ(Acquire(7, TokenOf("team")).status().code(), Code::kResourceExhausted);
}

TEST_P(SchedulerAccountsTest, RefusesNamespacesOfNobody) {
  const auto refused = Acquire(1, TokenOf("kube-system"));
  EXPECT_EQ(refused.status().code(), Code::kUnauthenticated);
  EXPECT_THAT(refused.status().message(), HasSubstr("--namespaces=kube-system"));
  EXPECT_EQ(scheduler_->Counts().rejected, 1u);
  // A tenant's name is no namespace.
  EXPECT_EQ(Acquire(1, TokenOf("shared")).status().code(), Code::kUnauthenticated);
  ASSERT_TRUE(SetNamespaces("shared", {"shared"}).ok());
  EXPECT_TRUE(Acquire(1, TokenOf("shared")).ok());
  ASSERT_TRUE(SetNamespaces("shared", {}).ok());
  EXPECT_EQ(Acquire(1, TokenOf("shared")).status().code(), Code::kUnauthenticated);
}

TEST_P(SchedulerAccountsTest, GivesOtherNamespacesTheDefaultTenant) {
  TakeTokens("shared");
  Restart();
  Tell(Report("a"));
  const auto lease = Acquire(1, TokenOf("kube-system"));
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->tenant(), "shared");
  EXPECT_EQ(Acquire(1, TokenOf("team"))->tenant(), "team");
  TakeTokens("gone");
  Restart();
  EXPECT_EQ(Acquire(1, TokenOf("kube-system")).status().code(), Code::kUnauthenticated);
}

TEST_P(SchedulerAccountsTest, SaysWhyInTheLogAndNotToTheSender) {
  LogCapture log;
  const TestKey other = TestKey::Ec("cluster");
  const std::vector<std::string> tokens = {
      TestToken(other, TestClaims("team")), TokenOf("team") + "x",
      TestToken(key_, R"({"alg":"none","kid":"cluster"})", TestClaims("team").dump())};
  std::string answer;
  for (const std::string& token : tokens) {
    const auto refused = Acquire(1, token);
    EXPECT_EQ(refused.status().code(), Code::kUnauthenticated);
    EXPECT_TRUE(answer.empty() || answer == refused.status().message());
    answer = std::string(refused.status().message());
  }
  EXPECT_THAT(answer, Not(HasSubstr("signature")));
  EXPECT_THAT(log.LinesWith("refused a ServiceAccount token"), SizeIs(3));
  EXPECT_THAT(log.LinesWith("its signature is not the cluster's"), SizeIs(1));
  EXPECT_THAT(log.LinesWith(tokens[0]), IsEmpty());
  EXPECT_EQ(scheduler_->Counts().rejected, 3u);
}

TEST_P(SchedulerAccountsTest, RecordsWhatItRefuses) {
  LogCapture log;
  const testing::TempFolder folder;
  audit::AuditLogOptions options;
  options.writer.dir = folder.path();
  {
    auto audit = audit::AuditLog::Open(options);
    ASSERT_TRUE(audit.ok()) << audit.status();
    audit_ = audit->get();
    Restart();
    AcquireRequest request;
    request.set_credential(TokenOf("team") + "x");
    for (int i = 0; i < 200; ++i) {
      EXPECT_FALSE(scheduler_->Acquire(request, false, true, {}, "ipv4:10.0.0.1:1").ok());
    }
    // One that floods hides no other.
    EXPECT_FALSE(scheduler_->Acquire(request, false, true, {}, "ipv4:10.0.0.2:1").ok());
    EXPECT_FALSE(scheduler_->ViewerOf(request.credential()).ok());
    scheduler_.reset();
  }
  audit_ = nullptr;
  std::string text;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    std::ifstream in(file.path());
    text.append(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  EXPECT_THAT(text, HasSubstr("\"event\":\"credential.refused\""));
  EXPECT_THAT(text, HasSubstr("base64url"));
  for (const char* const peer : {"ipv4:10.0.0.1:1", "ipv4:10.0.0.2:1", "page"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("\"peer\":\"", peer, "\"")));
    EXPECT_THAT(log.LinesWith(absl::StrCat("peer=", peer, " reason=")), Not(IsEmpty()));
  }
  EXPECT_THAT(text, Not(HasSubstr("eyJ")));
}

TEST_P(SchedulerAccountsTest, ATokenThatHasRunOutGetsNothing) {
  const std::string token = TokenOf("team");
  const auto lease = Acquire(1, token);
  ASSERT_TRUE(lease.ok()) << lease.status();
  now_ += absl::Hours(1) + absl::Seconds(31);
  EXPECT_EQ(Acquire(1, token).status().code(), Code::kUnauthenticated);
}

TEST_P(SchedulerAccountsTest, OtherCredentialsGoOn) {
  const std::string word = TenantNamed("third", {});
  EXPECT_TRUE(Acquire(1, word).ok());
  EXPECT_EQ(Acquire(1, std::string(257, 'x')).status().code(), Code::kInvalidArgument);
  accounts_ = nullptr;
  Restart();
  Tell(Report("a"));
  EXPECT_TRUE(Acquire(1, word).ok());
  const auto refused = Acquire(1, TokenOf("team"));
  EXPECT_EQ(refused.status().code(), Code::kUnauthenticated);
  EXPECT_THAT(refused.status().message(), HasSubstr("--cluster_keys"));
}

TEST_P(SchedulerAccountsTest, ATenantSeesItsOwnWithItsToken) {
  EXPECT_TRUE(StatOf("", TokenOf("team")).ok());
  EXPECT_EQ(StatOf("", TokenOf("other")).status().code(), Code::kUnauthenticated);
  warpline_internal::WithdrawRequest request;
  request.set_credential(TokenOf("team"));
  request.set_ticket("x");
  EXPECT_TRUE(scheduler_->Withdraw(request, /*local=*/false).ok());
  request.set_credential(TokenOf("team") + "x");
  EXPECT_EQ(scheduler_->Withdraw(request, /*local=*/false).code(), Code::kUnauthenticated);
}

TEST_P(SchedulerAccountsTest, ANamespaceIsOfOneTenant) {
  EXPECT_EQ(SetNamespaces("shared", {"team"}).code(), Code::kFailedPrecondition);
  EXPECT_EQ(SetNamespaces("shared", {"x", "x"}).code(), Code::kInvalidArgument);
  for (const char* name : {"", "Team", "a.b", "a,b", "-a", "*"}) {
    EXPECT_EQ(SetNamespaces("shared", {name}).code(), Code::kInvalidArgument) << name;
  }
  EXPECT_EQ(SetNamespaces("shared", std::vector<std::string>(65, "a")).code(),
            Code::kInvalidArgument);
  EXPECT_TRUE(SetNamespaces("team", {"team"}).ok());
  EXPECT_TRUE(SetNamespaces("shared", {"team-dev"}).ok());
  Restart();
  Tell(Report("a"));
  EXPECT_EQ(Acquire(1, TokenOf("team-dev"))->tenant(), "shared");
}

}  // namespace
}  // namespace warpline::scheduler
