// The flags --tls_cert, --tls_key and --tls_ca of the programs that listen.
#ifndef WARPLINE_COMMON_SERVING_TLS_FLAGS_H_
#define WARPLINE_COMMON_SERVING_TLS_FLAGS_H_

#include "common/serving/tls_files.h"

namespace warpline {

// Call after the command line has been parsed.
TlsFiles TlsFilesFromFlags();

// The flag --tls_unix: whether unix sockets use TLS as well.
bool TlsOnUnixSockets();

}  // namespace warpline

#endif  // WARPLINE_COMMON_SERVING_TLS_FLAGS_H_
