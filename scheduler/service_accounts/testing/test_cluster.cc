#include "scheduler/service_accounts/testing/test_cluster.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/service_accounts/base64url.h"

namespace warpline::scheduler {
namespace {

using nlohmann::json;

// Big-endian; at least `size` bytes.
std::string Bytes(const BIGNUM* number, int size = 0) {
  std::string bytes(static_cast<size_t>(std::max(size, BN_num_bytes(number))), '\0');
  BN_bn2binpad(number, reinterpret_cast<unsigned char*>(bytes.data()),
               static_cast<int>(bytes.size()));
  return bytes;
}

std::string Number(EVP_PKEY* key, const char* name, int size = 0) {
  BIGNUM* number = nullptr;
  if (EVP_PKEY_get_bn_param(key, name, &number) != 1) abort();
  const std::string text = EncodeBase64Url(Bytes(number, size));
  BN_free(number);
  return text;
}

template <typename Write>
std::string PemOf(Write write) {
  BIO* const out = BIO_new(BIO_s_mem());
  write(out);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(out);
  return text;
}

}  // namespace

TestKey TestKey::Rsa(const std::string& id, int bits) {
  return TestKey(id, EVP_RSA_gen(static_cast<unsigned>(bits)));
}

TestKey TestKey::Ec(const std::string& id, const char* curve) {
  return TestKey(id, EVP_EC_gen(curve));
}

json TestKey::Jwk(bool secret) const {
  EVP_PKEY* const key = key_.get();
  json jwk = {{"use", "sig"}, {"kid", id_}};
  if (EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA) {
    jwk.update({{"kty", "RSA"},
                {"alg", "RS256"},
                {"n", Number(key, OSSL_PKEY_PARAM_RSA_N)},
                {"e", Number(key, OSSL_PKEY_PARAM_RSA_E)}});
    if (secret) jwk["d"] = Number(key, OSSL_PKEY_PARAM_RSA_D);
    return jwk;
  }
  const int bits = EVP_PKEY_get_bits(key);
  const int size = (bits + 7) / 8;
  jwk.update({{"kty", "EC"},
              {"alg", bits == 256 ? "ES256" : "ES384"},
              {"crv", absl::StrCat("P-", bits)},
              {"x", Number(key, OSSL_PKEY_PARAM_EC_PUB_X, size)},
              {"y", Number(key, OSSL_PKEY_PARAM_EC_PUB_Y, size)}});
  if (secret) jwk["d"] = Number(key, OSSL_PKEY_PARAM_PRIV_KEY, size);
  return jwk;
}

std::string TestKey::Pem() const {
  return PemOf([this](BIO* out) { PEM_write_bio_PUBKEY(out, key_.get()); });
}

std::string TestKey::PrivatePem() const {
  return PemOf([this](BIO* out) {
    PEM_write_bio_PrivateKey(out, key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

std::string TestKey::Sign(const std::string& text) const {
  EVP_MD_CTX* const digest = EVP_MD_CTX_new();
  std::string signature(1024, '\0');
  size_t size = signature.size();
  if (EVP_DigestSignInit(digest, nullptr, EVP_sha256(), nullptr, key_.get()) != 1 ||
      EVP_DigestSign(digest, reinterpret_cast<unsigned char*>(signature.data()), &size,
                     reinterpret_cast<const unsigned char*>(text.data()), text.size()) != 1) {
    abort();
  }
  EVP_MD_CTX_free(digest);
  signature.resize(size);
  if (EVP_PKEY_get_base_id(key_.get()) == EVP_PKEY_RSA) return signature;
  const auto* der = reinterpret_cast<const unsigned char*>(signature.data());
  ECDSA_SIG* const numbers = d2i_ECDSA_SIG(nullptr, &der, static_cast<long>(size));
  const int each = (EVP_PKEY_get_bits(key_.get()) + 7) / 8;
  std::string raw =
      absl::StrCat(Bytes(ECDSA_SIG_get0_r(numbers), each), Bytes(ECDSA_SIG_get0_s(numbers), each));
  ECDSA_SIG_free(numbers);
  return raw;
}

std::string Jwks(std::initializer_list<const TestKey*> keys) {
  json list = json::array();
  for (const TestKey* key : keys) list.push_back(key->Jwk());
  return json({{"keys", std::move(list)}}).dump();
}

json TestClaims(const std::string& name_space, const std::string& name) {
  return {
      {"aud", {"warpline"}},
      {"exp", kTestMade + 3600},
      {"iat", kTestMade},
      {"nbf", kTestMade},
      {"iss", kTestIssuer},
      {"jti", "5e3ff0b5-6a51-4c7e-9a4e-3f3c4d9b6a10"},
      {"sub", absl::StrCat("system:serviceaccount:", name_space, ":", name)},
      {"kubernetes.io",
       {{"namespace", name_space},
        {"node", {{"name", "node-a"}, {"uid", "7bb5a0b1-1c1e-4d0a-8a52-6a4e1d0f7c11"}}},
        {"pod", {{"name", "train-0"}, {"uid", "0f5f9f3e-08b6-4b0e-8d63-9d8f1a2c3b44"}}},
        {"serviceaccount", {{"name", name}, {"uid", "c1a7d1d2-2f53-4bd2-9e43-7f6a5b4c3d22"}}}}}};
}

json TestHeader(const TestKey& key) {
  const json jwk = key.Jwk();
  return {{"alg", jwk["alg"]}, {"kid", key.id()}};
}

std::string TestToken(const TestKey& key, const std::string& header, const std::string& claims) {
  const std::string text = absl::StrCat(EncodeBase64Url(header), ".", EncodeBase64Url(claims));
  return absl::StrCat(text, ".", EncodeBase64Url(key.Sign(text)));
}

std::string TestToken(const TestKey& key, const json& claims) {
  return TestToken(key, TestHeader(key).dump(), claims.dump());
}

}  // namespace warpline::scheduler
