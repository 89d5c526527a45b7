#include "common/serving/listen_address.h"

#include <arpa/inet.h>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace warpline {

bool IsLoopbackHost(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return false;
}

absl::Status CheckListenAddress(const std::string& address, bool tls) {
  if (absl::StartsWith(address, "unix:")) {
    if (address.size() > 5 && address[5] == '/') return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\": a unix socket needs an absolute path"));
  }
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\": expected host:port or unix:/path"));
  }
  std::string host = address.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  if (tls || IsLoopbackHost(host)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "refusing to listen on ", address,
      ": TLS is not configured, and without it only loopback (127.0.0.1, [::1], localhost) and "
      "unix:/path are served. To reach this server from another host, give it --tls_cert, "
      "--tls_key "
      "and --tls_ca, or forward a port to it, for example with ssh -L"));
}

absl::Status CheckMetricsAddress(const std::string& address, bool anywhere) {
  if (address.empty()) return absl::OkStatus();
  const absl::Status status = CheckListenAddress(address, anywhere);
  if (!absl::IsPermissionDenied(status)) return status;
  return absl::PermissionDeniedError(
      absl::StrCat("refusing --admin_listen=", address,
                   ": other hosts could reach it, in plain text and without a credential; give "
                   "--admin_listen_anywhere as well if that is meant"));
}

absl::Status CheckHealthAddress(const std::string& address) {
  if (address.empty()) return absl::OkStatus();
  if (absl::StartsWith(address, "unix:")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--health_listen=", address, ": expected host:port"));
  }
  // That other hosts reach it is what it is for.
  return CheckListenAddress(address, /*tls=*/true);
}

bool IsLocalPeer(const std::string& peer) {
  // The text after the address comes from a certificate.
  absl::string_view rest = absl::string_view(peer).substr(0, peer.find(' '));
  if (absl::StartsWith(rest, "unix:") || absl::StartsWith(rest, "unix-abstract:")) return true;
  if (absl::ConsumePrefix(&rest, "ipv4:")) {
    return IsLoopbackHost(std::string(rest.substr(0, rest.rfind(':'))));
  }
  if (absl::ConsumePrefix(&rest, "ipv6:")) {
    // gRPC escapes the brackets.
    return absl::StartsWith(rest, "%5B::1%5D:") || absl::StartsWith(rest, "[::1]:");
  }
  return false;
}

namespace {
constexpr std::string_view kCertificate = " cert=";
}  // namespace

// Names have no blanks, so that none of them looks like the word at the end.
std::string_view PeerCertificate(std::string_view peer) {
  const size_t at = peer.rfind(kCertificate);
  return at == std::string_view::npos ? "" : peer.substr(at + kCertificate.size());
}

std::string_view PeerNames(std::string_view peer) {
  const size_t names = peer.find(' ');
  if (names == std::string_view::npos) return "";
  const size_t end = peer.rfind(kCertificate);
  return peer.substr(names, end == std::string_view::npos ? end : end - names);
}

std::string_view PeerWithoutPort(std::string_view peer) {
  const std::string_view names = PeerNames(peer);
  if (!names.empty()) return names.substr(1);
  peer = peer.substr(0, peer.find(' '));
  const bool address = absl::StartsWith({peer.data(), peer.size()}, "ipv4:") ||
                       absl::StartsWith({peer.data(), peer.size()}, "ipv6:");
  return address ? peer.substr(0, peer.rfind(':')) : peer;
}

std::string PeerUnit(std::string_view peer) {
  const std::string_view unit = PeerWithoutPort(peer);
  constexpr std::string_view kIpv6 = "ipv6:";
  if (!PeerNames(peer).empty() || unit.substr(0, kIpv6.size()) != kIpv6) return std::string(unit);
  // gRPC escapes the brackets.
  std::string host = absl::StrReplaceAll(absl::string_view(unit.data(), unit.size()),
                                         {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
  host.erase(0, kIpv6.size());
  in6_addr address = {};
  if (inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &address) != 1) {
    return std::string(unit);
  }
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    return absl::StrCat("ipv4:", address.s6_addr[12], ".", address.s6_addr[13], ".",
                        address.s6_addr[14], ".", address.s6_addr[15]);
  }
  return absl::StrCat(
      "ipv6:",
      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(address.s6_addr), 8)),
      "/64");
}

}  // namespace warpline
