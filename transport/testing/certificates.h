// Certificates made for a test, by OpenSSL.
#ifndef WARPLINE_TRANSPORT_TESTING_CERTIFICATES_H_
#define WARPLINE_TRANSPORT_TESTING_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace warpline::testing {

struct Subject {
  std::string name;                     // CN, and a DNS name that the certificate is for.
  absl::Duration age = absl::Hours(1);  // Since it became valid.
  absl::Duration lifetime = absl::Hours(24);
};

// PEM texts.
struct IssuedCertificate {
  std::string certificate;
  std::string key;
};

// A root that signs. Aborts the test where OpenSSL fails. Thread-compatible.
class TestCa {
 public:
  explicit TestCa(const std::string& name);

  const std::string& certificate() const { return certificate_; }
  IssuedCertificate Issue(const Subject& subject) const;
  // A revocation list (PEM) with these certificates (PEM) of this root.
  std::string Revoke(const std::vector<std::string>& certificates) const;

 private:
  struct FreeKey {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  };

  std::string name_;
  std::unique_ptr<EVP_PKEY, FreeKey> key_;
  std::string certificate_;
};

}  // namespace warpline::testing

#endif  // WARPLINE_TRANSPORT_TESTING_CERTIFICATES_H_
