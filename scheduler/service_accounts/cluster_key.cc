#include "scheduler/service_accounts/cluster_key.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/param_build.h>

#include "absl/strings/str_cat.h"
#include "common/crypto/openssl.h"

namespace warpline::scheduler {
namespace {

constexpr int kLeastRsaBits = 2048;
// A larger one makes each token more work than it has to be.
constexpr int kMostRsaBits = 8192;
constexpr size_t kMostExponentBytes = 8;
constexpr size_t kCoordinateBytes = 32;
constexpr char kP256[] = "prime256v1";

using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
template <typename T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// OpenSSL keeps its errors for whoever asks next in this thread.
absl::Status Refused(const char* why) {
  ERR_clear_error();
  return absl::InvalidArgumentError(why);
}

Key KeyOf(const char* type, OSSL_PARAM_BLD* builder) {
  const Owned<OSSL_PARAM> parameters(OSSL_PARAM_BLD_to_param(builder), &OSSL_PARAM_free);
  const Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr),
                                    &EVP_PKEY_CTX_free);
  EVP_PKEY* key = nullptr;
  if (parameters == nullptr || context == nullptr || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) != 1) {
    return Key(nullptr, &EVP_PKEY_free);
  }
  return Key(key, &EVP_PKEY_free);
}

absl::Status CheckRsa(const EVP_PKEY* key) {
  const int bits = EVP_PKEY_get_bits(key);
  if (bits < kLeastRsaBits) return Refused("an RSA key has at least 2048 bits");
  if (bits > kMostRsaBits) return Refused("an RSA key has at most 8192 bits");
  BIGNUM* number = nullptr;
  if (EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &number) != 1) {
    return Refused("an RSA key has an exponent");
  }
  const Owned<BIGNUM> exponent(number, &BN_free);
  if (BN_is_odd(number) == 0 || BN_is_one(number) != 0 ||
      BN_num_bytes(number) > static_cast<int>(kMostExponentBytes)) {
    return Refused("an RSA key's exponent is odd, not 1 and of at most 64 bits");
  }
  return absl::OkStatus();
}

absl::Status CheckPoint(EVP_PKEY* key) {
  char name[32] = {};
  if (EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, name, sizeof(name),
                                     nullptr) != 1 ||
      absl::string_view(name) != kP256) {
    return Refused("a key on a curve is of P-256");
  }
  const Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_from_pkey(nullptr, key, nullptr),
                                    &EVP_PKEY_CTX_free);
  if (context == nullptr || EVP_PKEY_public_check(context.get()) != 1) {
    return Refused("the point is not on the curve");
  }
  return absl::OkStatus();
}

// The signature as OpenSSL has it; empty for one that is none.
std::string DerOf(absl::string_view signature) {
  if (signature.size() != 2 * kCoordinateBytes) return "";
  const Owned<ECDSA_SIG> numbers(ECDSA_SIG_new(), &ECDSA_SIG_free);
  Owned<BIGNUM> r(BN_bin2bn(Bytes(signature), kCoordinateBytes, nullptr), &BN_free);
  Owned<BIGNUM> s(BN_bin2bn(Bytes(signature) + kCoordinateBytes, kCoordinateBytes, nullptr),
                  &BN_free);
  if (numbers == nullptr || r == nullptr || s == nullptr ||
      ECDSA_SIG_set0(numbers.get(), r.get(), s.get()) != 1) {
    return "";
  }
  // These belong to `numbers` now.
  (void)r.release();
  (void)s.release();
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(numbers.get(), &der);
  if (size <= 0) return "";
  std::string text(reinterpret_cast<const char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return text;
}

}  // namespace

absl::string_view NameOf(JwsAlgorithm algorithm) {
  return algorithm == JwsAlgorithm::kRs256 ? "RS256" : "ES256";
}

absl::StatusOr<ClusterKey> ClusterKey::FromOpenSsl(std::string id, Key key) {
  if (key == nullptr) return Refused("it is no public key");
  absl::Status status;
  JwsAlgorithm algorithm;
  switch (EVP_PKEY_get_base_id(key.get())) {
    case EVP_PKEY_RSA:
      algorithm = JwsAlgorithm::kRs256;
      status = CheckRsa(key.get());
      break;
    case EVP_PKEY_EC:
      algorithm = JwsAlgorithm::kEs256;
      status = CheckPoint(key.get());
      break;
    default:
      return Refused("a key is of RSA or P-256");
  }
  if (!status.ok()) return status;
  return ClusterKey(std::move(id), algorithm, std::shared_ptr<EVP_PKEY>(std::move(key)));
}

absl::StatusOr<ClusterKey> ClusterKey::FromRsa(std::string id, absl::string_view modulus,
                                               absl::string_view exponent) {
  if (modulus.size() > kMostRsaBits / 8) return Refused("an RSA key has at most 8192 bits");
  if (exponent.size() > kMostExponentBytes) {
    return Refused("an RSA key's exponent is odd, not 1 and of at most 64 bits");
  }
  UseOpenSsl();
  const Owned<BIGNUM> n(BN_bin2bn(Bytes(modulus), static_cast<int>(modulus.size()), nullptr),
                        &BN_free);
  const Owned<BIGNUM> e(BN_bin2bn(Bytes(exponent), static_cast<int>(exponent.size()), nullptr),
                        &BN_free);
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new(), &OSSL_PARAM_BLD_free);
  if (n == nullptr || e == nullptr || builder == nullptr ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1) {
    return Refused("it is no public key");
  }
  return FromOpenSsl(std::move(id), KeyOf("RSA", builder.get()));
}

absl::StatusOr<ClusterKey> ClusterKey::FromPoint(std::string id, absl::string_view x,
                                                 absl::string_view y) {
  if (x.size() != kCoordinateBytes || y.size() != kCoordinateBytes) {
    return Refused("a point of P-256 has two numbers of 32 bytes");
  }
  UseOpenSsl();
  const std::string point = absl::StrCat("\x04", x, y);  // Uncompressed.
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new(), &OSSL_PARAM_BLD_free);
  if (builder == nullptr ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, kP256, 0) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                       point.size()) != 1) {
    return Refused("it is no public key");
  }
  return FromOpenSsl(std::move(id), KeyOf("EC", builder.get()));
}

bool ClusterKey::Signed(absl::string_view text, absl::string_view signature) const {
  std::string der;
  if (algorithm_ == JwsAlgorithm::kEs256) {
    der = DerOf(signature);
    if (der.empty()) return false;
    signature = der;
  } else if (signature.size() != static_cast<size_t>(EVP_PKEY_get_size(key_.get()))) {
    return false;
  }
  const Owned<EVP_MD_CTX> digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  const bool good =
      digest != nullptr &&
      EVP_DigestVerifyInit(digest.get(), nullptr, EVP_sha256(), nullptr, key_.get()) == 1 &&
      EVP_DigestVerify(digest.get(), Bytes(signature), signature.size(), Bytes(text),
                       text.size()) == 1;
  ERR_clear_error();
  return good;
}

const ClusterKey* ClusterKeys::Find(absl::string_view id) const {
  for (const ClusterKey& key : keys) {
    if (key.id() == id) return &key;
  }
  return nullptr;
}

}  // namespace warpline::scheduler
