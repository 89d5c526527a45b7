// The files that TLS takes its keys and certificates from. No file is read here; see
// transport/grpc/tls/grpc_tls.h.
#ifndef WARPLINE_COMMON_SERVING_TLS_FILES_H_
#define WARPLINE_COMMON_SERVING_TLS_FILES_H_

#include <string>
#include <vector>

namespace warpline {

// Paths of PEM files; an empty path means that the file is not given. `cert` and `key` identify
// this end and go together; `ca` signs the peers that this end accepts.
struct TlsFiles {
  std::string ca = {};
  std::string cert = {};
  std::string key = {};
  // On a client: the name that the server's certificate must carry, when it is not the endpoint's
  // host.
  std::string server_name = {};
  // On a server: certificates that `ca` has signed and taken back; a file, or a folder of files.
  std::string crl = {};
  // On a server: a client's certificate must carry one of these names; none for any.
  std::vector<std::string> clients = {};

  // True when nothing is given, which means plain text.
  bool empty() const {
    return ca.empty() && cert.empty() && key.empty() && server_name.empty() && crl.empty() &&
           clients.empty();
  }
};

// The environment variables of a client.
inline constexpr char kTlsCaVariable[] = "WARPLINE_TLS_CA";
inline constexpr char kTlsCertVariable[] = "WARPLINE_TLS_CERT";
inline constexpr char kTlsKeyVariable[] = "WARPLINE_TLS_KEY";
inline constexpr char kTlsServerNameVariable[] = "WARPLINE_TLS_SERVER_NAME";

// Reads these variables from the environment of the process.
TlsFiles TlsFilesFromEnvironment();

// Whether a connection to `endpoint` is encrypted. One to host:port is when anything is given; one
// to a unix socket only with a server_name, since a socket has no host that a certificate could be
// checked against.
bool WantsTls(const TlsFiles& files, const std::string& endpoint);

}  // namespace warpline

#endif  // WARPLINE_COMMON_SERVING_TLS_FILES_H_
