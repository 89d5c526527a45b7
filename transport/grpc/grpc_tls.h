// What TLS needs on either end. Without it a listener or a connection is plain text.
#ifndef WARPLINE_TRANSPORT_GRPC_GRPC_TLS_H_
#define WARPLINE_TRANSPORT_GRPC_GRPC_TLS_H_

#include <string>

namespace warpline {

// PEM texts. `cert_chain` and `private_key` identify this end and go together; `root_certs` signs
// the peers that this end accepts.
struct GrpcTls {
  std::string root_certs;
  std::string cert_chain;
  std::string private_key;
  // On a client: the name that the server's certificate must carry, when not the host's.
  std::string server_name;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_GRPC_GRPC_TLS_H_
