// Finds out why TLS between a client and a server did not come about. gRPC says no more than that
// it could not connect. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_CONNECT_TLS_PROBE_H_
#define WARPLINE_TRANSPORT_GRPC_CONNECT_TLS_PROBE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/grpc/connect/target.h"
#include "transport/grpc/tls/grpc_tls.h"

namespace warpline::grpc_internal {

// Makes one connection to `to` by itself and looks how far it gets. `tls` is null for a plain-text
// client; `name` is what the server's certificate must carry. UNAUTHENTICATED, with a sentence
// that names the fault and what to do, when it is one of TLS; OK when nothing was found, which is
// also so when nobody listens or `deadline` passes. Call it on a thread that blocks SIGPIPE.
absl::Status ExplainTlsFailure(const SocketAddress& to, const GrpcTls* tls, const std::string& name,
                               absl::Time deadline);

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_CONNECT_TLS_PROBE_H_
