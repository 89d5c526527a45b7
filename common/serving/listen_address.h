// Which addresses a server may listen on, and which peers are on its host.
#ifndef WARPLINE_COMMON_SERVING_LISTEN_ADDRESS_H_
#define WARPLINE_COMMON_SERVING_LISTEN_ADDRESS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace warpline {

// Returns OK for "unix:/path" and for "host:port". Without TLS the host must be loopback:
// "localhost:PORT", "127.x.y.z:PORT", "[::1]:PORT". INVALID_ARGUMENT when `address` has neither
// form; PERMISSION_DENIED, saying what to do, when other hosts could reach it without TLS.
absl::Status CheckListenAddress(const std::string& address, bool tls);

// True for localhost and for an IP address, without brackets, that only this host reaches.
bool IsLoopbackHost(const std::string& host);

// Whether metrics may be served at "host:port", in plain text and to everybody who reaches it: at
// loopback addresses, or `anywhere` where the operator says so. Errors as above.
absl::Status CheckMetricsAddress(const std::string& address, bool anywhere);

// OK for "host:port", which other hosts may reach, and for empty, which is none; INVALID_ARGUMENT
// otherwise.
absl::Status CheckHealthAddress(const std::string& address);

// True for a peer on this host, as Acceptor::Accept() gets it ("ipv4:127.0.0.1:52044 cn=...
// cert=...").
bool IsLocalPeer(const std::string& peer);

// The SHA-256 of the peer's certificate in hexadecimal, which ends `peer` where it has one
// (" cert=..."); and the names of the certificate before it (" cn=..." and so on). Empty without.
std::string_view PeerCertificate(std::string_view peer);
std::string_view PeerNames(std::string_view peer);

// The part of `peer` that stays the same from one connection to the next: the names of its
// certificate ("cn=..."), or its address without the port when it has none.
std::string_view PeerWithoutPort(std::string_view peer);

// Whom `peer` is for bounds that hold for all that one peer has: the names of its certificate, or
// its address, where all of an IPv6 network (the first 64 bits) are one, or "unix:uid=N".
std::string PeerUnit(std::string_view peer);

}  // namespace warpline

#endif  // WARPLINE_COMMON_SERVING_LISTEN_ADDRESS_H_
