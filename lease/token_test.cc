#include "lease/token.h"

#include "absl/strings/str_cat.h"
#include "common/crypto/openssl_at_exit.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

class TokenTest : public testing::Test {
 protected:
  TokenTest() {
    token_.lease = "abc";
    token_.tenant = "vision";
    token_.server = "gpu1:14000";
    token_.devices = {"GPU-1", "GPU-2"};
    token_.slice.memory_bytes = 4ull << 30;
    token_.max_sessions = 8;
    token_.expires = now_ + absl::Minutes(1);
  }

  std::string Text() const { return SignToken(key_, token_).value(); }

  const absl::Time now_ = absl::FromUnixSeconds(1800000000);
  const SigningKey key_ = SigningKey::Generate().value();
  LeaseToken token_;
};

TEST(TokenDeathTest, KeysAndHashesLeaveOpenSslInPlaceAtTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        (void)Sha256("text");
        (void)SigningKey::Generate();
        ExitAndSeeOpenSsl();
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(TokenTest, SignedTokenOpensAsItWas) {
  const auto opened = OpenToken(Text(), {key_.verify_key()});
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->lease, "abc");
  EXPECT_EQ(opened->tenant, "vision");
  EXPECT_EQ(opened->devices, token_.devices);
  EXPECT_EQ(opened->slice.memory_bytes, 4ull << 30);
  EXPECT_EQ(opened->max_sessions, 8u);
  EXPECT_EQ(opened->rights, kAllRights);
  EXPECT_EQ(opened->expires, token_.expires);
  EXPECT_EQ(opened->ends, absl::InfiniteFuture());
  EXPECT_TRUE(CheckToken(*opened, "gpu1:14000", now_).ok());
}

TEST_F(TokenTest, SliceIsCarriedWhole) {
  const DeviceSlice usual = OpenToken(Text(), {key_.verify_key()})->slice;
  EXPECT_EQ(usual.max_handles, DeviceSlice().max_handles);
  EXPECT_EQ(usual.sm_percent, 100u);
  EXPECT_EQ(usual.launch_time_limit, absl::InfiniteDuration());
  EXPECT_EQ(usual.max_commands, 0u);
  EXPECT_EQ(usual.staging_bytes, 0u);
  EXPECT_EQ(usual.period, absl::ZeroDuration());
  EXPECT_EQ(usual.budget, absl::ZeroDuration());
  EXPECT_FALSE(usual.best_effort);
  token_.slice.max_handles = 100;
  token_.slice.max_module_bytes = 1 << 20;
  token_.slice.sm_percent = 25;
  token_.slice.priority = -3;
  token_.slice.weight = 7;
  token_.slice.copy_weight = 5;
  token_.slice.launch_time_limit = absl::Milliseconds(250);
  token_.slice.hardware_queues = 2;
  token_.slice.max_commands = 64;
  token_.slice.staging_bytes = 16 << 20;
  token_.slice.period = absl::Milliseconds(20);
  token_.slice.budget = absl::Milliseconds(6);
  token_.slice.best_effort = true;
  token_.slice.tenants_weight = true;
  token_.slice.tenants_copy_weight = true;
  const DeviceSlice slice = OpenToken(Text(), {key_.verify_key()})->slice;
  EXPECT_EQ(slice.memory_bytes, 4ull << 30);
  EXPECT_EQ(slice.max_handles, 100u);
  EXPECT_EQ(slice.max_module_bytes, 1u << 20);
  EXPECT_EQ(slice.sm_percent, 25u);
  EXPECT_EQ(slice.priority, -3);
  EXPECT_EQ(slice.weight, 7u);
  EXPECT_EQ(slice.copy_weight, 5u);
  EXPECT_EQ(slice.launch_time_limit, absl::Milliseconds(250));
  EXPECT_EQ(slice.hardware_queues, 2u);
  EXPECT_EQ(slice.max_commands, 64u);
  EXPECT_EQ(slice.staging_bytes, 16u << 20);
  EXPECT_EQ(slice.period, absl::Milliseconds(20));
  EXPECT_EQ(slice.budget, absl::Milliseconds(6));
  EXPECT_TRUE(slice.best_effort);
  EXPECT_TRUE(slice.tenants_weight);
  EXPECT_TRUE(slice.tenants_copy_weight);
}

TEST_F(TokenTest, AReservationOfEverythingIsNone) {
  for (const auto& [period_ms, budget_ms] : {std::pair{20, 20}, std::pair{0, 5}, {2000, 5}}) {
    token_.slice.period = absl::Milliseconds(period_ms);
    token_.slice.budget = absl::Milliseconds(budget_ms);
    const DeviceSlice slice = OpenToken(Text(), {key_.verify_key()})->slice;
    EXPECT_EQ(slice.period, absl::ZeroDuration()) << period_ms;
    EXPECT_EQ(slice.budget, absl::ZeroDuration()) << period_ms;
  }
}

TEST_F(TokenTest, TiersAreCarried) {
  EXPECT_EQ(OpenToken(Text(), {key_.verify_key()})->tiers, kAllTiers);
  token_.tiers = SetOf(Tier::kGuarded);
  const LeaseToken opened = OpenToken(Text(), {key_.verify_key()}).value();
  EXPECT_TRUE(opened.AllowsTier(Tier::kGuarded));
  EXPECT_FALSE(opened.AllowsTier(Tier::kIsolated));
}

TEST_F(TokenTest, KeySurvivesBeingStored) {
  const auto again = SigningKey::FromPrivateBytes(key_.private_bytes());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->verify_key().id, key_.verify_key().id);
  EXPECT_TRUE(OpenToken(SignToken(*again, token_).value(), {key_.verify_key()}).ok());
  EXPECT_FALSE(SigningKey::FromPrivateBytes("short").ok());
}

TEST_F(TokenTest, EveryChangedByteIsRefused) {
  const std::string text = Text();
  for (size_t i = 0; i < text.size(); ++i) {
    // The last character of either part has bits that mean nothing.
    if (i + 1 == text.size() || text[i + 1] == '.') continue;
    std::string changed = text;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_EQ(OpenToken(changed, {key_.verify_key()}).status().code(),
              absl::StatusCode::kUnauthenticated)
        << i;
  }
}

TEST_F(TokenTest, GarbageIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("."), std::string("x.y"), std::string("\0\xff.", 3),
        std::string(kMaxTokenText + 1, 'A'), Text() + "." + Text(), Text().substr(0, 40)}) {
    EXPECT_EQ(OpenToken(text, {key_.verify_key()}).status().code(),
              absl::StatusCode::kUnauthenticated);
  }
}

TEST_F(TokenTest, OtherKeysTokenIsRefused) {
  const SigningKey other = SigningKey::Generate().value();
  EXPECT_FALSE(OpenToken(Text(), {other.verify_key()}).ok());
  EXPECT_FALSE(OpenToken(Text(), {}).ok());
  // Another key claims this one's name.
  EXPECT_FALSE(OpenToken(Text(), {{key_.verify_key().id, other.verify_key().public_key}}).ok());
  EXPECT_TRUE(OpenToken(Text(), {other.verify_key(), key_.verify_key()}).ok());
}

TEST_F(TokenTest, OtherServersExpiredAndUnknownTokensAreRefused) {
  EXPECT_EQ(CheckToken(token_, "gpu2:14000", now_).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_FALSE(CheckToken(token_, "gpu1:14000", token_.expires).ok());
  token_.rights = RightOf(Capability::kLaunch) | RightOf(Capability::kLoad);
  EXPECT_TRUE(CheckToken(token_, "gpu1:14000", now_).ok());
  token_.rights = RightOf(Capability::kLaunch) | (kKnownRights + 1);
  EXPECT_FALSE(CheckToken(token_, "gpu1:14000", now_).ok());
  token_.rights = kAllRights;
  token_.ends = now_;
  EXPECT_FALSE(CheckToken(token_, "gpu1:14000", now_).ok());
}

TEST_F(TokenTest, TicketsOpenNoSessionAndTokensMoveNoLease) {
  EXPECT_FALSE(CheckTicket(*OpenToken(Text(), {key_.verify_key()}), "gpu1:14000", now_).ok());
  token_.moved_from = "gpu0:14000";
  token_.move = ~uint64_t{5};
  const auto ticket = OpenToken(Text(), {key_.verify_key()});
  ASSERT_TRUE(ticket.ok()) << ticket.status();
  EXPECT_EQ(ticket->moved_from, "gpu0:14000");
  EXPECT_EQ(ticket->move, ~uint64_t{5});
  EXPECT_TRUE(CheckTicket(*ticket, "gpu1:14000", now_).ok());
  EXPECT_FALSE(CheckTicket(*ticket, "gpu0:14000", now_).ok());
  EXPECT_FALSE(CheckTicket(*ticket, "gpu1:14000", token_.expires).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(CheckToken(*ticket, "gpu1:14000", now_)));
}

TEST_F(TokenTest, TokenOfACertificateIsForThatCertificate) {
  const SigningKey key = SigningKey::Generate().value();
  LeaseToken token;
  token.lease = "1";
  token.holder = HolderOf("ipv4:10.0.0.7:5555 cn=alice cert=00ff");
  const auto opened = OpenToken(SignToken(key, token).value(), {key.verify_key()});
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(CheckHolder(*opened, HolderOf("ipv4:10.0.0.9:1 cn=alice cert=00ff")).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(
      CheckHolder(*opened, HolderOf("ipv4:10.0.0.7:5555 cn=mallory cert=1234"))));
  // Its names alone, which another authority may give as well, open nothing.
  EXPECT_TRUE(absl::IsUnauthenticated(
      CheckHolder(*opened, HolderOf("ipv4:10.0.0.7:5555 cn=alice cert=1234"))));
  EXPECT_TRUE(CheckHolder(*opened, HolderOf("unix:")).ok());
  EXPECT_TRUE(CheckHolder(LeaseToken(), HolderOf("ipv4:10.0.0.7:1 cn=alice cert=1234")).ok());
}

TEST_F(TokenTest, TokenIsRenewedForTheCertificateThatFollows) {
  LeaseToken token;
  token.holder = HolderOf("ipv4:10.0.0.7:5555 cn=alice cert=00ff");
  EXPECT_TRUE(absl::IsUnauthenticated(
      RenewHolder(HolderOf("ipv4:10.0.0.7:5555 cn=mallory cert=1234"), &token)));
  EXPECT_EQ(token.holder.certificate, "00ff");
  EXPECT_TRUE(RenewHolder(HolderOf("unix:"), &token).ok());
  EXPECT_EQ(token.holder.certificate, "00ff");
  EXPECT_TRUE(RenewHolder(HolderOf("ipv4:10.0.0.7:5555 cn=alice cert=1234"), &token).ok());
  EXPECT_EQ(token.holder.certificate, "1234");
}

}  // namespace
}  // namespace warpline
