// Finds the transport that an address belongs to. Private to transport/registry.
#ifndef WARPLINE_TRANSPORT_REGISTRY_BY_SCHEME_H_
#define WARPLINE_TRANSPORT_REGISTRY_BY_SCHEME_H_

#include <cstddef>
#include <string_view>

#include "absl/types/span.h"

namespace warpline {

// The end among `ends` whose transport has the address's scheme, otherwise the one without a
// scheme; nullptr where there is none.
template <typename End>
const End* EndFor(absl::Span<const End> ends, std::string_view address) {
  const size_t colon = address.find("://");
  const std::string_view scheme = address.substr(0, colon == std::string_view::npos ? 0 : colon);
  const End* rest = nullptr;
  for (const End& end : ends) {
    if (end.transport.scheme.empty()) rest = &end;
    if (!scheme.empty() && end.transport.scheme == scheme) return &end;
  }
  return rest;
}

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_REGISTRY_BY_SCHEME_H_
