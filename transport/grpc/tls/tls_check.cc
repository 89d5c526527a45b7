#include "transport/grpc/tls/tls_check.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/openssl.h"
#include "common/log/log.h"

namespace warpline::grpc_internal {
namespace {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using RevocationList = std::unique_ptr<X509_CRL, Freed<X509_CRL_free>>;
using GeneralNames = std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

Bio Reader(const std::string& text) {
  UseOpenSsl();
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// A key with a password would otherwise be asked for on the terminal.
int NoPassword(char*, int, int, void*) { return 0; }

// The first certificate, after reading all: half of one at the end is an error.
absl::StatusOr<Certificate> ParseChain(const std::string& pem) {
  UseOpenSsl();
  ERR_clear_error();
  const Bio reader = Reader(pem);
  Certificate first;
  for (;;) {
    Certificate next(PEM_read_bio_X509(reader.get(), nullptr, &NoPassword, nullptr));
    if (next == nullptr) break;
    if (first == nullptr) first = std::move(next);
  }
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  if (first == nullptr) return absl::UnauthenticatedError("holds no PEM certificate");
  if (ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
    return absl::UnauthenticatedError("holds a damaged certificate");
  }
  return first;
}

// Those that come before the first text that is none.
std::vector<Certificate> ParseAll(const std::string& pem) {
  const Bio reader = Reader(pem);
  std::vector<Certificate> all;
  for (;;) {
    Certificate next(PEM_read_bio_X509(reader.get(), nullptr, &NoPassword, nullptr));
    if (next == nullptr) break;
    all.push_back(std::move(next));
  }
  ERR_clear_error();
  return all;
}

bool Signed(X509_CRL* list, X509* issuer) {
  EVP_PKEY* const key = X509_get0_pubkey(issuer);
  return X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(issuer)) == 0 &&
         key != nullptr && X509_CRL_verify(list, key) == 1;
}

std::string TextOf(const ASN1_STRING* string) {
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, string);
  if (size < 0) return "";
  std::string copy(reinterpret_cast<const char*>(text), static_cast<size_t>(size));
  OPENSSL_free(text);
  return copy;
}

// An address as people write it; empty for what is none.
std::string AddressText(const ASN1_OCTET_STRING* address) {
  const int size = ASN1_STRING_length(address);
  char text[INET6_ADDRSTRLEN] = "";
  const int family = size == 4 ? AF_INET : AF_INET6;
  if (size != 4 && size != 16) return "";
  inet_ntop(family, ASN1_STRING_get0_data(address), text, sizeof(text));
  return text;
}

// The common names and the alternative names. A name that ends at a NUL for others is compared
// whole here.
std::vector<std::string> NamesOf(const X509* certificate) {
  std::vector<std::string> names;
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  for (int at = -1; (at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0;) {
    names.push_back(TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at))));
  }
  const GeneralNames all(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type == GEN_DNS) names.push_back(TextOf(name->d.dNSName));
    if (name->type == GEN_URI) names.push_back(TextOf(name->d.uniformResourceIdentifier));
    if (name->type == GEN_EMAIL) names.push_back(TextOf(name->d.rfc822Name));
    if (name->type == GEN_IPADD) names.push_back(AddressText(name->d.iPAddress));
  }
  names.erase(std::remove(names.begin(), names.end(), ""), names.end());
  return names;
}

std::string RevocationKey(const X509_NAME* issuer, const ASN1_INTEGER* serial) {
  const unsigned char* name = nullptr;
  size_t size = 0;
  if (X509_NAME_get0_der(issuer, &name, &size) != 1) size = 0;
  return absl::StrCat(std::string(reinterpret_cast<const char*>(name), size), "/",
                      std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(serial)),
                                  static_cast<size_t>(ASN1_STRING_length(serial))));
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::string Day(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

absl::Status Fault(const std::string& file, const absl::Status& status) {
  return absl::UnauthenticatedError(absl::StrCat(file, " ", status.message()));
}

}  // namespace

absl::StatusOr<CertificateSummary> ReadCertificate(const std::string& pem) {
  const absl::StatusOr<Certificate> certificate = ParseChain(pem);
  if (!certificate.ok()) return certificate.status();
  CertificateSummary summary;
  const Bio text(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate->get()), 0, XN_FLAG_RFC2253);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text.get(), &bytes);
  if (size > 0) summary.subject.assign(bytes, static_cast<size_t>(size));
  summary.not_after = TimeOf(X509_get0_notAfter(certificate->get()));
  return summary;
}

absl::Status CheckTls(const GrpcTls& tls, const TlsFiles& files, absl::Time now) {
  if (!files.ca.empty()) {
    const absl::StatusOr<Certificate> root = ParseChain(tls.root_certs);
    if (!root.ok()) return Fault(files.ca, root.status());
  }
  if (files.cert.empty()) return absl::OkStatus();
  const absl::StatusOr<Certificate> own = ParseChain(tls.cert_chain);
  if (!own.ok()) return Fault(files.cert, own.status());
  const absl::Time from = TimeOf(X509_get0_notBefore(own->get()));
  const absl::Time to = TimeOf(X509_get0_notAfter(own->get()));
  if (now > to) {
    return absl::UnauthenticatedError(
        absl::StrCat("the certificate in ", files.cert, " expired at ", Day(to), ": renew it"));
  }
  if (now < from) {
    return absl::UnauthenticatedError(absl::StrCat("the certificate in ", files.cert,
                                                   " is valid from ", Day(from),
                                                   " on: check this machine's clock"));
  }
  ERR_clear_error();
  const Key key(
      PEM_read_bio_PrivateKey(Reader(tls.private_key).get(), nullptr, &NoPassword, nullptr));
  const bool match = key != nullptr && X509_check_private_key(own->get(), key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) {
    return absl::UnauthenticatedError(
        absl::StrCat(files.key, " holds no PEM private key without a password"));
  }
  if (!match) {
    return absl::UnauthenticatedError(absl::StrCat(
        "the key in ", files.key, " does not belong to the certificate in ", files.cert));
  }
  return absl::OkStatus();
}

absl::Status ReadRevocations(const std::string& pem, const std::string& roots,
                             const std::string& file, absl::Time now,
                             std::set<std::string>* revoked) {
  const auto issuers = ParseAll(roots);
  ERR_clear_error();
  const Bio reader = Reader(pem);
  size_t lists = 0;
  while (true) {
    const RevocationList list(PEM_read_bio_X509_CRL(reader.get(), nullptr, &NoPassword, nullptr));
    if (list == nullptr) break;
    ++lists;
    const bool known = std::any_of(issuers.begin(), issuers.end(), [&](const Certificate& issuer) {
      return Signed(list.get(), issuer.get());
    });
    if (!known) {
      ERR_clear_error();
      return Fault(file, absl::UnauthenticatedError("is not signed by a certificate in --tls_ca"));
    }
    const ASN1_TIME* const next = X509_CRL_get0_nextUpdate(list.get());
    if (next != nullptr && now > TimeOf(next)) {
      LogWarning("the revocation list in ", file, " was to be renewed at ", Day(TimeOf(next)),
                 ": what it names stays refused, what was revoked later is not known");
    }
    const STACK_OF(X509_REVOKED)* const entries = X509_CRL_get_REVOKED(list.get());
    for (int i = 0; i < sk_X509_REVOKED_num(entries); ++i) {
      const X509_REVOKED* const entry = sk_X509_REVOKED_value(entries, i);
      revoked->insert(
          RevocationKey(X509_CRL_get_issuer(list.get()), X509_REVOKED_get0_serialNumber(entry)));
    }
  }
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  if (lists == 0 || ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
    return Fault(file,
                 absl::UnauthenticatedError("holds no PEM revocation list, or a damaged one"));
  }
  return absl::OkStatus();
}

absl::Status CheckNotRevoked(const std::string& chain, const std::set<std::string>& revoked) {
  const auto certificates = ParseAll(chain);
  if (certificates.empty()) return absl::UnauthenticatedError("the client shows no certificate");
  for (const Certificate& certificate : certificates) {
    if (revoked.count(RevocationKey(X509_get_issuer_name(certificate.get()),
                                    X509_get0_serialNumber(certificate.get()))) != 0) {
      return absl::UnauthenticatedError("the client's certificate was revoked");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNamed(const std::string& chain, const std::vector<std::string>& names) {
  if (names.empty()) return absl::OkStatus();
  const absl::StatusOr<Certificate> own = ParseChain(chain);
  if (!own.ok()) return absl::UnauthenticatedError("the client shows no certificate");
  const std::vector<std::string> carried = NamesOf(own->get());
  const bool known = std::any_of(carried.begin(), carried.end(), [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  });
  return known ? absl::OkStatus()
               : absl::UnauthenticatedError(
                     "the client's certificate is for nobody whom this server takes");
}

std::string CertificateDigest(const std::string& pem) {
  const absl::StatusOr<Certificate> certificate = ParseChain(pem);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (!certificate.ok() || X509_digest(certificate->get(), EVP_sha256(), digest, &size) != 1) {
    return "";
  }
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), size});
}

}  // namespace warpline::grpc_internal
