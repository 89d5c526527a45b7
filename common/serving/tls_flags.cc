#include "common/serving/tls_flags.h"

#include "absl/flags/flag.h"

ABSL_FLAG(std::string, tls_cert, "",
          "PEM file with this server's certificate and those between it and its root. With "
          "--tls_key and --tls_ca: clients must use TLS and present a certificate, and any address "
          "may be listened on. A changed file counts for the next connection.");
ABSL_FLAG(std::string, tls_key, "", "PEM file with the private key of --tls_cert.");
ABSL_FLAG(std::string, tls_ca, "", "PEM file with the certificates that sign those of clients.");
ABSL_FLAG(
    std::string, tls_crl, "",
    "Revocation lists (PEM) of those that sign clients' certificates: a file, or a folder with "
    "such files. A client whose certificate is on one is refused from its next session, call "
    "or resumption on; a changed list counts within a second, and an old one until then.");
ABSL_FLAG(bool, tls_unix, false, "TLS on unix sockets too, which are plain text otherwise.");

namespace warpline {

TlsFiles TlsFilesFromFlags() {
  return {.ca = absl::GetFlag(FLAGS_tls_ca),
          .cert = absl::GetFlag(FLAGS_tls_cert),
          .key = absl::GetFlag(FLAGS_tls_key),
          .server_name = "",
          .crl = absl::GetFlag(FLAGS_tls_crl)};
}

bool TlsOnUnixSockets() { return absl::GetFlag(FLAGS_tls_unix); }

}  // namespace warpline
