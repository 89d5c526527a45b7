// Reads the headers of an IP packet, as a link needs them. Pure functions.
#ifndef WARPLINE_BENCH_NETWORK_PACKET_H_
#define WARPLINE_BENCH_NETWORK_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace warpline {

// Ethernet's preamble, header, checksum and gap.
inline constexpr size_t kFrameBytes = 38;

// virtio_net_hdr of linux/virtio_net.h, which is no C++: what the sender leaves to a network card.
struct OffloadHeader {
  uint8_t flags;
  uint8_t gso_type;  // 0 for a packet that is sent as it is.
  uint16_t hdr_len;
  uint16_t gso_size;    // Bytes of payload in each segment.
  uint16_t csum_start;  // Where the TCP header begins.
  uint16_t csum_offset;
};
static_assert(sizeof(OffloadHeader) == 10);

struct TcpSegment {
  // Addresses and ports of both ends, the same for both directions.
  std::string flow;
  bool opens = false;  // The first packet of a connection: SYN without ACK.
};

// nullopt for anything but TCP, and for a packet that is cut short. Extension headers of IPv6 are
// not read: a packet that has them counts as something else.
std::optional<TcpSegment> ReadTcp(absl::string_view packet);

// The bytes that an IP packet takes on an Ethernet, where the sender's network card cuts it into
// segments if `offload` says so.
size_t WireBytes(const OffloadHeader& offload, absl::string_view packet);

}  // namespace warpline

#endif  // WARPLINE_BENCH_NETWORK_PACKET_H_
