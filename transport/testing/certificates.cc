#include "transport/testing/certificates.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace warpline::testing {
namespace {

void Check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "OpenSSL failed: %s\n", what);
  abort();
}

template <typename Write>
std::string Pem(Write write) {
  BIO* const bio = BIO_new(BIO_s_mem());
  Check(write(bio) == 1, "PEM");
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  std::string text(bytes, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

void SetName(X509_NAME* to, const std::string& name) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(name.c_str());
  Check(X509_NAME_add_entry_by_txt(to, "CN", MBSTRING_UTF8, bytes, -1, -1, 0) == 1, "name");
}

void Extend(X509* certificate, int what, const std::string& value) {
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str());
  Check(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1, "extension");
  X509_EXTENSION_free(extension);
}

std::string Sign(const Subject& subject, const std::string& issuer, EVP_PKEY* key, EVP_PKEY* signer,
                 bool is_ca) {
  static long serial = 1;
  X509* const made = X509_new();
  X509_set_version(made, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(made), -absl::ToInt64Seconds(subject.age));
  X509_gmtime_adj(X509_getm_notAfter(made), absl::ToInt64Seconds(subject.lifetime - subject.age));
  SetName(X509_get_subject_name(made), subject.name);
  SetName(X509_get_issuer_name(made), issuer);
  X509_set_pubkey(made, key);
  Extend(made, NID_basic_constraints, is_ca ? "critical,CA:TRUE" : "CA:FALSE");
  if (!is_ca) Extend(made, NID_subject_alt_name, absl::StrCat("DNS:", subject.name));
  Check(X509_sign(made, signer, EVP_sha256()) > 0, "signature");
  const std::string text = Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, made); });
  X509_free(made);
  return text;
}

EVP_PKEY* NewKey() {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  Check(key != nullptr, "key");
  return key;
}

}  // namespace

TestCa::TestCa(const std::string& name) : name_(name), key_(NewKey()) {
  certificate_ = Sign({.name = name}, name, key_.get(), key_.get(), /*is_ca=*/true);
}

IssuedCertificate TestCa::Issue(const Subject& subject) const {
  const std::unique_ptr<EVP_PKEY, FreeKey> key(NewKey());
  IssuedCertificate issued;
  issued.certificate = Sign(subject, name_, key.get(), key_.get(), /*is_ca=*/false);
  issued.key = Pem([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return issued;
}

std::string TestCa::Revoke(const std::vector<std::string>& certificates) const {
  X509_CRL* const list = X509_CRL_new();
  X509_NAME* const issuer = X509_NAME_new();
  SetName(issuer, name_);
  Check(X509_CRL_set_version(list, 1) == 1 && X509_CRL_set_issuer_name(list, issuer) == 1, "list");
  X509_NAME_free(issuer);
  ASN1_TIME* const time = X509_gmtime_adj(nullptr, 0);
  X509_CRL_set1_lastUpdate(list, time);
  X509_gmtime_adj(time, 3600);
  X509_CRL_set1_nextUpdate(list, time);
  for (const std::string& pem : certificates) {
    BIO* const bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
    X509* const certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    Check(certificate != nullptr, "certificate");
    X509_REVOKED* const entry = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(certificate));
    X509_REVOKED_set_revocationDate(entry, time);
    Check(X509_CRL_add0_revoked(list, entry) == 1, "entry");
    X509_free(certificate);
    BIO_free(bio);
  }
  ASN1_TIME_free(time);
  Check(X509_CRL_sign(list, key_.get(), EVP_sha256()) > 0, "signature");
  const std::string text = Pem([&](BIO* bio) { return PEM_write_bio_X509_CRL(bio, list); });
  X509_CRL_free(list);
  return text;
}

}  // namespace warpline::testing
