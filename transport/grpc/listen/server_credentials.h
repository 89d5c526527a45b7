// A listener's credentials, and what they say of a peer. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_LISTEN_SERVER_CREDENTIALS_H_
#define WARPLINE_TRANSPORT_GRPC_LISTEN_SERVER_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "transport/grpc/tls/grpc_tls.h"

namespace warpline::grpc_internal {

// For one listener: each new connection is taken with what `tls` has then, and clients must present
// a certificate that it trusts. Plain text when `tls` is null. Call it again for another listener.
// Must outlive the server that listens with it.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(std::shared_ptr<TlsSource> tls);

// The other end of a call for logs: "ipv4:10.0.0.7:5555", with TLS followed by what its certificate
// names and its SHA-256: " cn=alice san=alice.example.org cert=...". Bounded, and of printable
// characters.
std::string PeerName(const grpc::ServerContextBase& context);

// Whether the other end may go on: UNAUTHENTICATED for one whose certificate `tls`, which may be
// null, has among the revoked ones. gRPC has looked at the rest.
absl::Status CheckPeer(const grpc::ServerContextBase& context, TlsSource* tls);

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_LISTEN_SERVER_CREDENTIALS_H_
