#include "common/serving/tls_flags.h"

#include <string>
#include <vector>

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
ABSL_FLAG(
    std::vector<std::string>, tls_clients, {},
    "Names, separated by commas, of which a client's certificate must carry one, as its common "
    "name or an alternative name (DNS, address, URI or mail), letter by letter. Empty for every "
    "client whose certificate --tls_ca signs. Servers are a scheduler's clients, too. Unix sockets "
    "in plain text show no certificates, so all their clients are taken.");
ABSL_FLAG(bool, tls_unix, false, "TLS on unix sockets too, which are plain text otherwise.");

namespace warpline {

TlsFiles TlsFilesFromFlags() {
  return {.ca = absl::GetFlag(FLAGS_tls_ca),
          .cert = absl::GetFlag(FLAGS_tls_cert),
          .key = absl::GetFlag(FLAGS_tls_key),
          .server_name = "",
          .crl = absl::GetFlag(FLAGS_tls_crl),
          .clients = absl::GetFlag(FLAGS_tls_clients)};
}

bool TlsOnUnixSockets() { return absl::GetFlag(FLAGS_tls_unix); }

}  // namespace warpline
