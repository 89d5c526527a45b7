// What certificates and keys say of themselves, read with OpenSSL.
#ifndef WARPLINE_TRANSPORT_GRPC_TLS_TLS_CHECK_H_
#define WARPLINE_TRANSPORT_GRPC_TLS_TLS_CHECK_H_

#include <string>

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

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_TLS_TLS_CHECK_H_
