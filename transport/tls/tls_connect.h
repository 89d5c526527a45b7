// Connects to an end that shares a secret, and says what the connection is for.
#ifndef WARPLINE_TRANSPORT_TLS_TLS_CONNECT_H_
#define WARPLINE_TRANSPORT_TLS_TLS_CONNECT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "transport/tls/tls_stream.h"

namespace warpline {

// Connects to the first of the places that takes a connection (transport/tcp/connect.h), and
// completes a handshake. Errors are those of ConnectTcp() and TlsStream::AwaitHandshake(). Blocks.
absl::StatusOr<std::unique_ptr<TlsStream>> ConnectTls(
    absl::string_view places, std::string_view secret, absl::Time until,
    const std::function<bool()>& given_up = nullptr);

// Sends the hello of the slot on a stream that has just been connected: so little fits into its
// socket.
absl::Status SayHello(TlsStream* stream, uint32_t slot);

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_TLS_TLS_CONNECT_H_
