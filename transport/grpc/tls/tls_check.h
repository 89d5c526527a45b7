// What certificates and keys say of themselves, read with OpenSSL.
#ifndef WARPLINE_TRANSPORT_GRPC_TLS_TLS_CHECK_H_
#define WARPLINE_TRANSPORT_GRPC_TLS_TLS_CHECK_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "transport/grpc/tls/grpc_tls.h"

namespace warpline::grpc_internal {

// Of a certificate chain's first certificate.
struct CertificateSummary {
  std::string subject;
  absl::Time not_after;
};

// Certificates only, at least one. UNAUTHENTICATED, without a file's name, otherwise.
absl::StatusOr<CertificateSummary> ReadCertificate(const std::string& pem);

// Whether gRPC could work with these texts: they parse, key and certificate go together, and the
// certificate is valid at `now`. UNAUTHENTICATED, naming the file at fault; nothing of a key's
// text is ever in the message.
absl::Status CheckTls(const GrpcTls& tls, const TlsFiles& files, absl::Time now);

// Adds what the revocation lists of `pem` name to `*revoked`, as texts of an issuer and a serial
// number. UNAUTHENTICATED, naming `file`, for what is no list and for one that no certificate of
// `roots` has signed: somebody else's would only seem to help. One that is out of date counts with
// what it has, and a log line says so.
absl::Status ReadRevocations(const std::string& pem, const std::string& roots,
                             const std::string& file, absl::Time now,
                             std::set<std::string>* revoked);

// UNAUTHENTICATED when a certificate of the PEM texts is among those, or none can be read.
absl::Status CheckNotRevoked(const std::string& chain, const std::set<std::string>& revoked);

// UNAUTHENTICATED when the first certificate of the PEM texts carries none of these names, letter
// by letter, as a common name or an alternative name, or cannot be read. With no names any will do.
absl::Status CheckNamed(const std::string& chain, const std::vector<std::string>& names);

// The SHA-256 of a PEM text's first certificate, in hexadecimal; empty when there is none.
std::string CertificateDigest(const std::string& pem);

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_TLS_TLS_CHECK_H_
