#include "scheduler/service_accounts/account_token.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/service_accounts/base64url.h"
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
const ClusterKeys& Keys() {
  static const auto* const keys = new ClusterKeys(*ParseClusterKeys(Jwks({&RsaKey(), &EcKey()})));
  return *keys;
}

absl::StatusOr<ServiceAccount> OpenAt(const std::string& token, int64_t seconds) {
  return OpenAccountToken(token, Keys(), {.issuer = kTestIssuer, .audience = "warpline"},
                          absl::FromUnixSeconds(seconds));
}
// Why the token is refused; empty if it is taken.
std::string Fault(const std::string& token, int64_t seconds = kTestMade + 60) {
  const auto account = OpenAt(token, seconds);
  if (account.ok()) return "";
  EXPECT_TRUE(absl::IsUnauthenticated(account.status()));
  return std::string(account.status().message());
}
// That of a token with these claims, signed well.
std::string FaultOf(const json& claims) { return Fault(TestToken(EcKey(), claims)); }
std::string FaultOfClaims(const std::string& claims) {
  return Fault(TestToken(EcKey(), TestHeader(EcKey()).dump(), claims));
}
std::string FaultOfHeader(const std::string& header) {
  return Fault(TestToken(EcKey(), header, TestClaims().dump()));
}
json With(const std::string& pointer, const json& value) {
  json claims = TestClaims();
  claims[json::json_pointer(pointer)] = value;
  return claims;
}
json Without(const char* name) {
  json claims = TestClaims();
  claims.erase(name);
  return claims;
}
json WithoutOfCluster(const char* name) {
  json claims = TestClaims();
  claims["kubernetes.io"].erase(name);
  return claims;
}

std::string Hmac(const std::string& secret, const std::string& text) {
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &size);
  return std::string(reinterpret_cast<const char*>(mac), size);
}

TEST(AccountToken, SaysWhoseItIs) {
  for (const TestKey* key : {&RsaKey(), &EcKey()}) {
    const auto account = OpenAt(TestToken(*key), kTestMade + 60);
    ASSERT_TRUE(account.ok()) << account.status();
    EXPECT_EQ(*account, (ServiceAccount{"team", "default", "train-0"}));
    EXPECT_TRUE(LooksLikeAccountToken(TestToken(*key)));
  }
  EXPECT_FALSE(LooksLikeAccountToken("eyJhbGciOiJSUzI1NiJ9"));
  EXPECT_FALSE(LooksLikeAccountToken(""));
}

TEST(AccountToken, TakesOtherSpellingsOfTheSame) {
  EXPECT_EQ(FaultOf(With("/aud", "warpline")), "");
  EXPECT_EQ(FaultOf(Without("nbf")), "");
  EXPECT_EQ(FaultOf(Without("jti")), "");
  EXPECT_EQ(FaultOf(TestClaims("a", "robot.v2")), "");
  EXPECT_EQ(FaultOf(TestClaims(std::string(63, 'n'))), "");
  EXPECT_EQ(FaultOfHeader(R"({"alg":"ES256","kid":"ec","typ":"JWT"})"), "");
  EXPECT_EQ(FaultOfHeader("{\"kid\" : \"\\u0065c\",\n \"alg\": \"ES256\"}"), "");
}

// --- Hostile tokens.

TEST(AccountToken, RefusesOtherAlgorithms) {
  for (const char* const alg : {"none", "None", "NONE", "nOnE", "HS256", "HS384", "RS512", "PS256",
                                "ES384", "ES512", "EdDSA", "rs256", "RS256 ", ""}) {
    const std::string header = json({{"alg", alg}, {"kid", "rsa"}}).dump();
    EXPECT_THAT(Fault(TestToken(RsaKey(), header, TestClaims().dump())),
                HasSubstr("its alg is not RS256 or ES256"))
        << alg;
  }
  EXPECT_THAT(FaultOfHeader(R"({"alg":["ES256"],"kid":"ec"})"), HasSubstr("its header"));
  EXPECT_THAT(FaultOfHeader(R"({"alg":null,"kid":"ec"})"), HasSubstr("no alg"));
  EXPECT_THAT(FaultOfHeader(R"({"kid":"ec"})"), HasSubstr("no alg"));
}

TEST(AccountToken, AKeySignsWithItsOwnAlgorithmAlone) {
  EXPECT_THAT(FaultOfHeader(R"({"alg":"RS256","kid":"ec"})"), HasSubstr("not that of its key"));
  EXPECT_THAT(Fault(TestToken(RsaKey(), R"({"alg":"ES256","kid":"rsa"})", TestClaims().dump())),
              HasSubstr("not that of its key"));
  EXPECT_THAT(Fault(TestToken(EcKey(), R"({"alg":"RS256","kid":"rsa"})", TestClaims().dump())),
              HasSubstr("signature"));
}

TEST(AccountToken, APublicKeyIsNoSecret) {
  // What readers fall for that have the public key for a secret (HS256), whatever its form.
  for (const std::string& secret : {RsaKey().Pem(), RsaKey().Jwk().dump(), std::string()}) {
    for (const char* const alg : {"HS256", "RS256"}) {
      const std::string text =
          absl::StrCat(EncodeBase64Url(json({{"alg", alg}, {"kid", "rsa"}}).dump()), ".",
                       EncodeBase64Url(TestClaims().dump()));
      EXPECT_NE(Fault(absl::StrCat(text, ".", EncodeBase64Url(Hmac(secret, text)))), "");
    }
  }
}

TEST(AccountToken, RefusesSignaturesThatDoNotHold) {
  const std::string token = TestToken(EcKey());
  const std::vector<std::string> parts = absl::StrSplit(token, '.');
  const auto with = [&](const std::string& signature) {
    return absl::StrCat(parts[0], ".", parts[1], ".", signature);
  };
  EXPECT_THAT(Fault(with("")), HasSubstr("signature"));
  EXPECT_THAT(Fault(with(EncodeBase64Url(std::string(64, '\0')))), HasSubstr("signature"));
  EXPECT_THAT(Fault(with(EncodeBase64Url(std::string(64, '\xff')))), HasSubstr("signature"));
  EXPECT_THAT(Fault(with(EncodeBase64Url(std::string(63, 'x')))), HasSubstr("signature"));
  EXPECT_THAT(Fault(with(parts[2] + "==")), HasSubstr("base64url"));
  EXPECT_THAT(Fault(with(parts[2].substr(0, 85))), HasSubstr("base64url"));
  EXPECT_THAT(Fault(with(" " + parts[2])), HasSubstr("base64url"));
  // Of other claims.
  const std::vector<std::string> others =
      absl::StrSplit(TestToken(EcKey(), TestClaims("kube-system")), '.');
  EXPECT_THAT(Fault(absl::StrCat(parts[0], ".", others[1], ".", parts[2])), HasSubstr("signature"));
  // By another key of the same name.
  const TestKey other = TestKey::Ec("ec");
  EXPECT_THAT(Fault(TestToken(other)), HasSubstr("signature"));
  // In DER, as certificates have it.
  const std::string text = parts[0] + "." + parts[1];
  EXPECT_THAT(Fault(with(EncodeBase64Url("0D" + EcKey().Sign(text)))), HasSubstr("signature"));
  // Each bit counts.
  for (size_t i = 0; i < token.size(); i += 7) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_NE(Fault(changed), "") << i;
  }
}

TEST(AccountToken, RefusesUnknownKeysAndThoseThatItBrings) {
  EXPECT_THAT(FaultOfHeader(R"({"alg":"ES256","kid":"other"})"), HasSubstr("kid other"));
  EXPECT_THAT(FaultOfHeader(R"({"alg":"ES256","kid":"EC"})"), HasSubstr("no key of the cluster"));
  EXPECT_THAT(FaultOfHeader(R"({"alg":"ES256","kid":"ec\u0000"})"), HasSubstr("no key"));
  EXPECT_THAT(FaultOfHeader(R"({"alg":"ES256","kid":"../ec"})"), HasSubstr("no key"));
  EXPECT_THAT(FaultOfHeader(R"({"alg":"ES256","kid":""})"), HasSubstr("no kid"));
  EXPECT_THAT(FaultOfHeader(R"({"alg":"ES256","kid":7})"), HasSubstr("no kid"));
  EXPECT_THAT(FaultOfHeader(R"({"alg":"ES256"})"), HasSubstr("no kid"));
  EXPECT_THAT(FaultOfHeader(json({{"alg", "ES256"}, {"kid", std::string(300, 'k')}}).dump()),
              HasSubstr("no kid"));
  const TestKey own = TestKey::Ec("ec");
  for (const json& more : {json{{"jwk", "x"}}, json{{"jku", "https://evil"}}, json{{"x5u", "x"}},
                           json{{"x5c", "x"}}, json{{"crit", "b64"}}, json{{"b64", false}},
                           json{{"zip", "DEF"}}, json{{"enc", "A128GCM"}}}) {
    json header = TestHeader(own);
    header.update(more);
    EXPECT_THAT(Fault(TestToken(own, header.dump(), TestClaims().dump())),
                HasSubstr("more than alg, kid and typ"));
  }
  EXPECT_THAT(FaultOfHeader(R"({"alg":"ES256","kid":"ec","jwk":{"kty":"EC"}})"),
              HasSubstr("its header"));
  EXPECT_THAT(FaultOfHeader(R"({"alg":"ES256","kid":"ec","typ":"JWE"})"), HasSubstr("typ"));
}

TEST(AccountToken, RefusesMalformedTokens) {
  const std::string good = TestToken(EcKey());
  const std::vector<std::string> parts = absl::StrSplit(good, '.');
  const std::string dot = ".";
  for (const std::string& token :
       {std::string(), dot, dot + dot, dot + dot + dot, parts[0], parts[0] + dot + parts[1],
        good + dot, good + dot + parts[2], dot + good, parts[0] + dot + dot + parts[2],
        dot + parts[1] + dot + parts[2], good + "\n", " " + good, good.substr(0, good.size() - 1),
        "Bearer " + good, std::string(good).replace(3, 1, std::string(1, '\0')),
        std::string(good).replace(3, 1, "\xc3\xa4"), std::string(kMaxAccountToken, '.'),
        "eyJ" + std::string(9000, 'A') + ".e30.AAAA"}) {
    EXPECT_NE(Fault(token), "") << token.substr(0, 40);
  }
  EXPECT_THAT(Fault(std::string(kMaxAccountToken + 1, 'a')), HasSubstr("too long"));
  EXPECT_THAT(FaultOfHeader(std::string(1025, ' ')), HasSubstr("too long"));
  EXPECT_THAT(FaultOfHeader("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(FaultOfHeader(R"({"alg":"ES256","kid":"ec","alg":"none"})"), HasSubstr("twice"));
  EXPECT_THAT(FaultOfHeader(R"({"alg":"ES256","kid":"ec","typ":{"a":1}})"), HasSubstr("deep"));
  EXPECT_THAT(FaultOfHeader("{\"alg\":\"ES256\",\"kid\":\"\xff\"}"), HasSubstr("no JSON"));
}

TEST(AccountToken, RefusesMalformedClaims) {
  EXPECT_THAT(FaultOfClaims(""), HasSubstr("its claims"));
  EXPECT_THAT(FaultOfClaims("{}"), HasSubstr("issuer"));
  EXPECT_THAT(FaultOfClaims("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(FaultOfClaims(TestClaims().dump() + "x"), HasSubstr("no JSON"));
  std::string twice = TestClaims().dump();
  twice.insert(1, R"("iss":"x",)");
  EXPECT_THAT(FaultOfClaims(twice), HasSubstr("twice"));
  std::string space_twice = TestClaims().dump();
  space_twice.insert(space_twice.find(R"("namespace")"), R"("namespace":"kube-system",)");
  EXPECT_THAT(FaultOfClaims(space_twice), HasSubstr("twice"));
  EXPECT_THAT(FaultOf(With("/deep", json::parse(R"([[[[[[1]]]]]])"))), HasSubstr("deep"));
  EXPECT_THAT(FaultOfClaims("{\"a\":" + std::string(1500, '[') + std::string(1500, ']') + "}"),
              HasSubstr("deep"));
  EXPECT_THAT(FaultOf(With("/many", std::vector<int>(100, 0))), HasSubstr("too many"));
}

TEST(AccountToken, RefusesOtherIssuers) {
  EXPECT_THAT(FaultOf(With("/iss", "https://kubernetes.default.svc")), HasSubstr("issuer"));
  EXPECT_THAT(FaultOf(With("/iss", std::string(kTestIssuer) + "/")), HasSubstr("issuer"));
  EXPECT_THAT(FaultOf(With("/iss", json::array({kTestIssuer}))), HasSubstr("issuer"));
  EXPECT_THAT(FaultOf(With("/iss", std::string(kTestIssuer) + std::string(1, '\0'))),
              HasSubstr("issuer"));
  EXPECT_THAT(FaultOf(Without("iss")), HasSubstr("issuer"));
}

TEST(AccountToken, RefusesOtherAudiences) {
  const json both = {"warpline", kTestIssuer};
  for (const json& audience :
       {json("api"), json(""), json("Warpline"), json("warpline "), json({"api"}), both,
        json::array(), json(nullptr), json(1), json::array({1}), json({{"warpline", true}}),
        json::array({json::array({"warpline"})}), json({"warpline", "warpline"})}) {
    EXPECT_THAT(FaultOf(With("/aud", audience)), HasSubstr("not for warpline alone")) << audience;
  }
  EXPECT_THAT(FaultOf(Without("aud")), HasSubstr("not for warpline alone"));
}

TEST(AccountToken, RefusesOtherTimes) {
  const std::string token = TestToken(EcKey());
  EXPECT_EQ(Fault(token, kTestMade - 30), "");
  EXPECT_THAT(Fault(token, kTestMade - 31), HasSubstr("future"));
  EXPECT_EQ(Fault(token, kTestMade + 3600 + 29), "");
  EXPECT_THAT(Fault(token, kTestMade + 3600 + 30), HasSubstr("run out"));
  EXPECT_THAT(FaultOf(With("/nbf", kTestMade + 600)), HasSubstr("future"));
  EXPECT_THAT(FaultOf(Without("exp")), HasSubstr("no time exp"));
  EXPECT_THAT(FaultOf(Without("iat")), HasSubstr("no time iat"));
  for (const json& time : {json(-1), json(INT64_MIN), json(UINT64_MAX), json(INT64_MAX),
                           json(253402300800), json(1e300), json(1.8e9), json("1800003600"),
                           json(nullptr), json(true), json::array({kTestMade})}) {
    EXPECT_THAT(FaultOf(With("/exp", time)), HasSubstr("no time exp")) << time;
    EXPECT_THAT(FaultOf(With("/iat", time)), HasSubstr("no time iat")) << time;
    EXPECT_THAT(FaultOf(With("/nbf", time)), HasSubstr("nbf is no time")) << time;
  }
  EXPECT_THAT(FaultOf(With("/exp", 0)), HasSubstr("run out"));
  EXPECT_EQ(FaultOf(With("/exp", kTestMade + 86400)), "");
  EXPECT_THAT(FaultOf(With("/exp", kTestMade + 86401)), HasSubstr("not good for a time"));
  EXPECT_THAT(FaultOf(With("/exp", 253402300799)), HasSubstr("not good for a time"));
  EXPECT_THAT(FaultOf(With("/iat", 0)), HasSubstr("not good for a time"));
}

TEST(AccountToken, RefusesOtherSubjects) {
  EXPECT_THAT(FaultOf(Without("sub")), HasSubstr("sub"));
  EXPECT_THAT(FaultOf(With("/sub", "system:serviceaccount:kube-system:default")), HasSubstr("sub"));
  EXPECT_THAT(FaultOf(With("/sub", "system:node:a")), HasSubstr("sub"));
  EXPECT_THAT(FaultOf(Without("kubernetes.io")), HasSubstr("no ServiceAccount"));
  EXPECT_THAT(FaultOf(With("/kubernetes.io", "team")), HasSubstr("no ServiceAccount"));
  for (const json& name : {json("Team"), json(""), json("te am"), json("../team"), json("a.b"),
                           json("-a"), json("a-"), json(std::string(64, 'a')), json("t\u00e9am"),
                           json(std::string("team\0x", 6)), json(7), json(nullptr)}) {
    EXPECT_THAT(FaultOf(With("/kubernetes.io/namespace", name)), HasSubstr("names no namespace"))
        << name;
  }
  for (const char* const kind : {"serviceaccount", "pod"}) {
    const std::string fault = absl::StrCat("names no ", kind);
    const std::string at = absl::StrCat("/kubernetes.io/", kind);
    EXPECT_THAT(FaultOf(WithoutOfCluster(kind)), HasSubstr(fault));
    EXPECT_THAT(FaultOf(With(at, "x")), HasSubstr(fault));
    EXPECT_THAT(FaultOf(With(at, json::object())), HasSubstr(fault));
    EXPECT_THAT(FaultOf(With(at + "/name", "a:b")), HasSubstr(fault));
    EXPECT_THAT(FaultOf(With(at + "/name", std::string(254, 'a'))), HasSubstr(fault));
    EXPECT_THAT(FaultOf(With(at + "/uid", "")), HasSubstr(fault));
  }
  // Of a Secret, as before Kubernetes 1.24: it never ends, and is for nobody in particular.
  EXPECT_NE(FaultOf({{"iss", "kubernetes/serviceaccount"},
                     {"kubernetes.io/serviceaccount/namespace", "team"},
                     {"sub", "system:serviceaccount:team:default"}}),
            "");
}

}  // namespace
}  // namespace warpline::scheduler
