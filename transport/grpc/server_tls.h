// The TLS flags of the programs that listen (common/serving/tls_flags.h), as a GrpcServer takes
// them.
#ifndef WARPLINE_TRANSPORT_GRPC_SERVER_TLS_H_
#define WARPLINE_TRANSPORT_GRPC_SERVER_TLS_H_

#include "transport/grpc/grpc_server.h"

namespace warpline {

// After the command line has been parsed.
void TakeTlsFlags(GrpcServerOptions* options);

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_GRPC_SERVER_TLS_H_
