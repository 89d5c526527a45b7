// Addresses of this transport: "tls://PLACE,PLACE", where a relay listens; see ConnectTcp().
#ifndef WARPLINE_TRANSPORT_TLS_TLS_ADDRESS_H_
#define WARPLINE_TRANSPORT_TLS_TLS_ADDRESS_H_

#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "transport/transport.h"

namespace warpline {

inline constexpr Transport kTlsTransport = {
    .scheme = "tls", .can = TransportCapabilities(TransportCapability::kSecret)};

inline constexpr absl::string_view kTlsScheme = "tls://";

inline std::string TlsAddress(absl::string_view places) { return absl::StrCat(kTlsScheme, places); }

// Returns the places of an address of this transport; nothing for another one.
inline std::optional<absl::string_view> PlacesOf(absl::string_view address) {
  if (!absl::StartsWith(address, kTlsScheme)) return std::nullopt;
  return address.substr(kTlsScheme.size());
}

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_TLS_TLS_ADDRESS_H_
