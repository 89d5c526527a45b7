// The first bytes of an end that connects: the number of the bulk connection that it is, or that it
// is the session's own.
#ifndef WARPLINE_TRANSPORT_TLS_TLS_HELLO_H_
#define WARPLINE_TRANSPORT_TLS_TLS_HELLO_H_

#include <cstdint>

namespace warpline {

struct TlsHello {
  uint32_t slot;
  uint32_t zero;
};
static_assert(sizeof(TlsHello) == 8);

inline constexpr uint32_t kSessionSlot = 0xffffffff;

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_TLS_TLS_HELLO_H_
