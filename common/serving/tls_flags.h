// --tls_cert, --tls_key and --tls_ca of the programs that listen.
#ifndef WARPLINE_COMMON_SERVING_TLS_FLAGS_H_
#define WARPLINE_COMMON_SERVING_TLS_FLAGS_H_

#include "common/serving/tls_files.h"

namespace warpline {

// After the command line has been parsed.
TlsFiles TlsFilesFromFlags();

// --tls_unix: on unix sockets as well.
bool TlsOnUnixSockets();

}  // namespace warpline

#endif  // WARPLINE_COMMON_SERVING_TLS_FLAGS_H_
