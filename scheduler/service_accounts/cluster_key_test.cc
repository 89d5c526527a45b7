#include "scheduler/service_accounts/cluster_key.h"

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/crypto/openssl_at_exit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/service_accounts/testing/test_cluster.h"

namespace warpline::scheduler {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const TestKey& RsaKey() {
  static const auto* const key = new TestKey(TestKey::Rsa("rsa"));
  return *key;
}
const TestKey& EcKey() {
  static const auto* const key = new TestKey(TestKey::Ec("ec"));
  return *key;
}

std::string SetOf(const json& key) { return json({{"keys", {key}}}).dump(); }

// Why the only key of a set is left out; empty if it is taken.
std::string LeftOut(const json& key) {
  const auto keys = ParseClusterKeys(SetOf(key));
  EXPECT_TRUE(keys.ok()) << keys.status();
  if (!keys.ok()) return "?";
  EXPECT_EQ(keys->keys.size() + keys->left_out.size(), 1u);
  return keys->left_out.empty() ? "" : keys->left_out[0];
}

std::string Fault(const std::string& text) {
  const auto keys = ParseClusterKeys(text);
  return keys.ok() ? "" : std::string(keys.status().message());
}

TEST(ClusterKeysDeathTest, ReadingKeysLeavesOpenSslInPlaceAtTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        (void)ParseClusterKeys("-----BEGIN PUBLIC KEY-----\nMA==\n-----END PUBLIC KEY-----\n");
        ExitAndSeeOpenSsl();
      },
      testing::ExitedWithCode(0), "");
}

TEST(ClusterKeys, TakesASetAsTheApiServerServesIt) {
  const auto keys = ParseClusterKeys(Jwks({&RsaKey(), &EcKey()}));
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_TRUE(keys->left_out.empty());
  ASSERT_NE(keys->Find("rsa"), nullptr);
  EXPECT_EQ(keys->Find("rsa")->algorithm(), JwsAlgorithm::kRs256);
  ASSERT_NE(keys->Find("ec"), nullptr);
  EXPECT_EQ(keys->Find("ec")->algorithm(), JwsAlgorithm::kEs256);
  EXPECT_EQ(keys->Find(""), nullptr);
  for (const TestKey* key : {&RsaKey(), &EcKey()}) {
    const ClusterKey& known = *keys->Find(key->id());
    EXPECT_TRUE(known.Signed("text", key->Sign("text")));
    EXPECT_FALSE(known.Signed("texts", key->Sign("text")));
    EXPECT_FALSE(known.Signed("text", ""));
    EXPECT_FALSE(known.Signed("text", key->Sign("text") + "x"));
    EXPECT_FALSE(known.Signed("text", key->Sign("text").substr(1)));
    EXPECT_FALSE(known.Signed("text", std::string(key->Sign("text").size(), '\0')));
    EXPECT_FALSE(known.Signed("text", std::string(key->Sign("text").size(), '\xff')));
  }
  EXPECT_FALSE(keys->Find("rsa")->Signed("text", EcKey().Sign("text")));
  EXPECT_FALSE(keys->Find("ec")->Signed("text", RsaKey().Sign("text")));
}

TEST(ClusterKeys, TakesPemAndDerivesTheIds) {
  const auto keys = ParseClusterKeys("# keys\n" + RsaKey().Pem() + "\n" + EcKey().Pem());
  ASSERT_TRUE(keys.ok()) << keys.status();
  ASSERT_EQ(keys->keys.size(), 2u);
  EXPECT_TRUE(keys->keys[1].Signed("text", EcKey().Sign("text")));
  // By hand: openssl pkey -pubin -outform DER | openssl dgst -sha256 -binary | base64url.
  constexpr char kPem[] = R"(-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt
6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==
-----END PUBLIC KEY-----
)";
  const auto known = ParseClusterKeys(kPem);
  ASSERT_TRUE(known.ok()) << known.status();
  ASSERT_EQ(known->keys.size(), 1u);
  EXPECT_EQ(known->keys[0].id(), "XNJS-wzokyQ2-vjM0QQJgbie5K1rn-niorfnGqyyfNM");
}

TEST(ClusterKeys, AnEmptySetHasNoKeys) {
  const auto keys = ParseClusterKeys(R"({"keys": []})");
  ASSERT_TRUE(keys.ok());
  EXPECT_TRUE(keys->keys.empty());
}

TEST(ClusterKeys, LeavesOutKeysThatItWouldNotTrust) {
  EXPECT_THAT(LeftOut(TestKey::Rsa("weak", 1024).Jwk()), HasSubstr("2048"));
  EXPECT_THAT(LeftOut(TestKey::Ec("wide", "P-384").Jwk()), HasSubstr("RSA or P-256"));
  const json rsa = RsaKey().Jwk(), ec = EcKey().Jwk();
  const auto with = [](json key, const char* name, const json& value) {
    key[name] = value;
    return key;
  };
  EXPECT_THAT(LeftOut(with(rsa, "kty", "oct")), HasSubstr("RSA or P-256"));
  EXPECT_THAT(LeftOut(with(rsa, "kty", "EC")), HasSubstr("RSA or P-256"));
  EXPECT_THAT(LeftOut(with(rsa, "kty", 1)), HasSubstr("RSA or P-256"));
  EXPECT_THAT(LeftOut(with(rsa, "use", "enc")), HasSubstr("not for signatures"));
  EXPECT_THAT(LeftOut(with(rsa, "alg", "HS256")), HasSubstr("its alg"));
  EXPECT_THAT(LeftOut(with(rsa, "alg", "RS512")), HasSubstr("its alg"));
  EXPECT_THAT(LeftOut(with(ec, "alg", "RS256")), HasSubstr("its alg"));
  EXPECT_THAT(LeftOut(with(rsa, "kid", "")), HasSubstr("no kid"));
  EXPECT_THAT(LeftOut(with(rsa, "kid", std::string(257, 'k'))), HasSubstr("no kid"));
  EXPECT_THAT(LeftOut(with(rsa, "n", "!")), HasSubstr("n and e"));
  EXPECT_THAT(LeftOut(with(rsa, "n", "")), HasSubstr("key rsa"));
  EXPECT_THAT(LeftOut(with(rsa, "n", std::string(1368, 'A'))), HasSubstr("8192"));
  EXPECT_THAT(LeftOut(with(rsa, "e", "AQ")), HasSubstr("exponent"));
  EXPECT_THAT(LeftOut(with(rsa, "e", "AAA")), HasSubstr("key rsa"));
  EXPECT_THAT(LeftOut(with(rsa, "e", std::string(12, '_'))), HasSubstr("exponent"));
  EXPECT_THAT(LeftOut(with(ec, "x", ec["y"])), HasSubstr("key ec"));
  EXPECT_THAT(LeftOut(with(ec, "x", "AAAA")), HasSubstr("32 bytes"));
  EXPECT_THAT(LeftOut(with(ec, "crv", "P-384")), HasSubstr("RSA or P-256"));
  EXPECT_EQ(LeftOut(with(rsa, "x5t", "abc")), "");
}

TEST(ClusterKeys, RefusesFilesThatAreNone) {
  for (const std::string text : {"", "x", "{}", "{", "[]", R"({"keys": {}})", R"({"keys": [1]})",
                                 "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
                                 "-----BEGIN PUBLIC KEY-----\nAAAA\n"}) {
    EXPECT_NE(Fault(text), "") << text;
  }
  const std::string twice = json({{"keys", {RsaKey().Jwk(), RsaKey().Jwk()}}}).dump();
  EXPECT_THAT(Fault(twice), HasSubstr("same id"));
  EXPECT_THAT(Fault(EcKey().Pem() + EcKey().Pem()), HasSubstr("same id"));
  EXPECT_THAT(Fault(std::string(kMaxClusterKeysBytes + 1, ' ')), HasSubstr("too long"));
  json many = json::array();
  for (size_t i = 0; i <= kMaxClusterKeys; ++i) {
    many.push_back(EcKey().Jwk());
    many.back()["kid"] = absl::StrCat(i);
  }
  EXPECT_THAT(Fault(json({{"keys", many}}).dump()), HasSubstr("more than 64"));
}

TEST(ClusterKeys, RefusesPrivateKeys) {
  EXPECT_THAT(Fault(SetOf(RsaKey().Jwk(true))), HasSubstr("private key"));
  EXPECT_THAT(Fault(SetOf(EcKey().Jwk(true))), HasSubstr("private key"));
  EXPECT_THAT(Fault(RsaKey().Pem() + EcKey().PrivatePem()), HasSubstr("private key"));
  EXPECT_THAT(Fault(SetOf({{"kty", "oct"}, {"kid", "x"}, {"k", "c2VjcmV0"}})),
              HasSubstr("private key"));
}

}  // namespace
}  // namespace warpline::scheduler
