#include "transport/grpc/server_tls.h"

#include <memory>

#include "common/serving/tls_flags.h"

namespace warpline {

void TakeTlsFlags(GrpcServerOptions* options) {
  const TlsFiles files = TlsFilesFromFlags();
  if (files.empty()) return;
  options->tls = std::make_shared<TlsSource>(TlsSource::Side::kServer, files);
  options->tls_on_unix_sockets = TlsOnUnixSockets();
}

}  // namespace warpline
