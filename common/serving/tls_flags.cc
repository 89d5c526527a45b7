#include "common/serving/tls_flags.h"

#include <string>
#include <vector>

#include "absl/flags/flag.h"

ABSL_FLAG(std::string, tls_cert, "",
          "PEM file with this server's certificate and the certificates between it "
          "and its root. With --tls_key and --tls_ca clients must use TLS and present "
          "a certificate, and --listen may have any address. A changed file counts "
          "for the next connection.");
ABSL_FLAG(std::string, tls_key, "", "PEM file with the private key of --tls_cert.");
ABSL_FLAG(std::string, tls_ca, "",
          "PEM file with the certificates that sign clients' certificates.");
ABSL_FLAG(std::string, tls_crl, "",
          "Revocation lists (PEM) of the authorities that sign clients' certificates: "
          "a file, or a folder with such files. A client whose certificate is on a "
          "list is refused from its next session, call or resumption on. A changed "
          "list counts within a second, and the old one until then.");
ABSL_FLAG(std::vector<std::string>, tls_clients, {},
          "Names, separated by commas. A client's certificate must carry one of them, "
          "letter by letter, as its common name or an alternative name (DNS, address, "
          "URI or mail). Empty for every client whose certificate --tls_ca signs. "
          "Servers are a scheduler's clients, too. Unix sockets in plain text show no "
          "certificates, so all their clients are accepted.");
ABSL_FLAG(bool, tls_unix, false, "Uses TLS on unix sockets, too, which are plain text otherwise.");

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
