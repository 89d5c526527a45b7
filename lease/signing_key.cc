#include "lease/signing_key.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "common/crypto/openssl.h"
#include "common/crypto/secret.h"

namespace warpline {
namespace {

constexpr size_t kKeyBytes = 32;
constexpr size_t kSignatureBytes = 64;
constexpr size_t kIdBytes = 6;

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Digest = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Key PrivateKey(absl::string_view bytes) {
  UseOpenSsl();
  return {bytes.size() == kKeyBytes
              ? EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, Bytes(bytes), bytes.size())
              : nullptr,
          &EVP_PKEY_free};
}

}  // namespace

bool VerifySignature(const VerifyKey& key, absl::string_view text, absl::string_view signature) {
  if (key.public_key.size() != kKeyBytes || signature.size() != kSignatureBytes) return false;
  UseOpenSsl();
  const Key opened(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Bytes(key.public_key), kKeyBytes),
      &EVP_PKEY_free);
  const Digest digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  return opened != nullptr && digest != nullptr &&
         EVP_DigestVerifyInit(digest.get(), nullptr, nullptr, nullptr, opened.get()) == 1 &&
         EVP_DigestVerify(digest.get(), Bytes(signature), signature.size(), Bytes(text),
                          text.size()) == 1;
}

absl::StatusOr<SigningKey> SigningKey::Generate() {
  return FromPrivateBytes(RandomBytes(kKeyBytes));
}

absl::StatusOr<SigningKey> SigningKey::FromPrivateBytes(absl::string_view bytes) {
  const Key key = PrivateKey(bytes);
  VerifyKey verify;
  verify.public_key.resize(kKeyBytes);
  size_t size = kKeyBytes;
  if (key == nullptr ||
      EVP_PKEY_get_raw_public_key(
          key.get(), reinterpret_cast<unsigned char*>(verify.public_key.data()), &size) != 1 ||
      size != kKeyBytes) {
    return absl::InvalidArgumentError("not an Ed25519 key");
  }
  verify.id = absl::BytesToHexString(Sha256(verify.public_key).substr(0, kIdBytes));
  return SigningKey(std::string(bytes), std::move(verify));
}

absl::StatusOr<std::string> SigningKey::Sign(absl::string_view text) const {
  const Key key = PrivateKey(private_bytes_);
  const Digest digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  std::string signature(kSignatureBytes, '\0');
  size_t size = signature.size();
  if (key == nullptr || digest == nullptr ||
      EVP_DigestSignInit(digest.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(digest.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     Bytes(text), text.size()) != 1) {
    return absl::InternalError("OpenSSL cannot sign");
  }
  return signature;
}

std::string Sha256(absl::string_view text) {
  UseOpenSsl();
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(Bytes(text), text.size(), reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

}  // namespace warpline
