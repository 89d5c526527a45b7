// What listens for clients.
//
//   const std::unique_ptr<Listener> listener = MakeListener(options);  // transport/registry
//   if (absl::Status status = listener->Start({"127.0.0.1:0"}, &acceptor); !status.ok()) ...
//   listener->SetServing(true);
//   <until the server is to end>
//   listener->SetServing(false);
//   listener->Shutdown(absl::Seconds(1));
#ifndef WARPLINE_TRANSPORT_LISTENER_H_
#define WARPLINE_TRANSPORT_LISTENER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/serving/tls_files.h"
#include "transport/channel.h"
#include "transport/unary_methods.h"

namespace warpline {

struct ListenerOptions {
  ChannelOptions channel = {};
  // Sessions above this many are refused with RESOURCE_EXHAUSTED, before they get a thread.
  int max_sessions = 256;
  // Of those that are not admitted (Channel::Admit()), in all and of one peer; for a new one the
  // oldest has to go. A peer is the name in a certificate, else an address (of IPv6 its first 64
  // bits), else the user of a unix socket.
  int max_strangers = 128;
  int max_strangers_of_peer = 64;
  // Connections that each address to listen on may have at a time. For a new one the oldest goes
  // that has no session which was admitted.
  int max_connections = 1024;
  // What the transport may hold of bytes that were not read yet, of all connections; above that it
  // takes no more.
  size_t max_buffer_bytes = size_t{1} << 30;
  // Plain text without. With it clients on other hosts must present a certificate that `ca` signs.
  TlsFiles tls = {};
  // The same for unix sockets, which are plain text otherwise.
  bool tls_on_unix_sockets = false;
  // Every address is a unix socket for this process's user and root alone, without the processes
  // that this one started. Start() returns UNAVAILABLE for an address that cannot be that.
  bool own_user_only = false;
  // Connections of this very process are no strangers: it makes none but for sessions that it has
  // admitted. For transports that see whose they are.
  bool trusts_own_process = false;
  // More to answer at the same addresses, where the transport can.
  UnaryMethods methods = {};
};

// Start() and Shutdown() are called by one thread; the rest is thread-safe once Start() has
// returned. The destructor shuts down without grace.
class Listener {
 public:
  virtual ~Listener() = default;

  // Hands sessions to `acceptor`, which is borrowed until Shutdown() has returned and is called on
  // many threads. Called once. UNAVAILABLE, naming the address, when one cannot be listened on;
  // UNAUTHENTICATED, naming the file, when one that TLS needs is not usable.
  virtual absl::Status Start(const std::vector<std::string>& addresses, Acceptor* acceptor) = 0;

  // Those of Start(), in their order, with the port that the system chose where it was to choose.
  virtual std::vector<std::string> addresses() const = 0;

  // What those are told who ask for the server's health. Not serving until set.
  virtual void SetServing(bool serving) = 0;

  // Sessions that run at the moment.
  virtual int sessions() const = 0;

  // Takes no new sessions, lets the running ones end until `deadline` from now, then cuts them.
  // Returns when every handler has been destroyed.
  virtual void Shutdown(absl::Duration deadline) = 0;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_LISTENER_H_
