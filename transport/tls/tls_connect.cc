#include "transport/tls/tls_connect.h"

#include <utility>

#include "transport/tcp/connect.h"
#include "transport/tls/tls_hello.h"

namespace warpline {

absl::StatusOr<std::unique_ptr<TlsStream>> ConnectTls(absl::string_view places,
                                                      std::string_view secret, absl::Time until,
                                                      const std::function<bool()>& given_up) {
  auto fd = ConnectTcp(places, until, given_up);
  if (!fd.ok()) return fd.status();
  auto stream = TlsStream::Create(*std::move(fd), TlsStream::Role::kConnects, secret);
  if (!stream.ok()) return stream;
  const absl::Status shaken = (*stream)->AwaitHandshake(until, given_up);
  if (!shaken.ok()) return shaken;
  return stream;
}

absl::Status SayHello(TlsStream* stream, uint32_t slot) {
  const TlsHello hello = {slot, 0};
  return stream->Write(&hello, sizeof(hello)).status();
}

}  // namespace warpline
