#include "bench/network/packet.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace warpline {
namespace {

constexpr uint8_t kTcp = 6;
constexpr uint8_t kSyn = 0x02;
constexpr uint8_t kAck = 0x10;

uint8_t ByteAt(absl::string_view text, size_t at) { return static_cast<uint8_t>(text[at]); }

}  // namespace

std::optional<TcpSegment> ReadTcp(absl::string_view packet) {
  if (packet.empty()) return std::nullopt;
  absl::string_view from;
  absl::string_view to;
  size_t header = 0;
  if (ByteAt(packet, 0) >> 4 == 4) {
    header = 4u * (ByteAt(packet, 0) & 15u);
    if (header < 20 || packet.size() < header || ByteAt(packet, 9) != kTcp) return std::nullopt;
    // Later fragments have no ports.
    if ((ByteAt(packet, 6) & 31) != 0 || ByteAt(packet, 7) != 0) return std::nullopt;
    from = packet.substr(12, 4);
    to = packet.substr(16, 4);
  } else {
    header = 40;
    if (packet.size() < header || ByteAt(packet, 6) != kTcp) return std::nullopt;
    from = packet.substr(8, 16);
    to = packet.substr(24, 16);
  }
  if (packet.size() < header + 20) return std::nullopt;
  const std::string first = absl::StrCat(from, packet.substr(header, 2));
  const std::string second = absl::StrCat(to, packet.substr(header + 2, 2));
  const uint8_t flags = ByteAt(packet, header + 13);
  return TcpSegment{.flow = first < second ? first + second : second + first,
                    .opens = (flags & kSyn) != 0 && (flags & kAck) == 0};
}

size_t WireBytes(const OffloadHeader& offload, absl::string_view packet) {
  const size_t length_at = offload.csum_start + 12u;
  if (offload.gso_type == 0 || offload.gso_size == 0 || length_at >= packet.size()) {
    return packet.size() + kFrameBytes;
  }
  const size_t headers = offload.csum_start + 4u * (ByteAt(packet, length_at) >> 4);
  const size_t payload = packet.size() - std::min(headers, packet.size());
  const size_t segments = (payload + offload.gso_size - 1) / offload.gso_size;
  return payload + segments * (headers + kFrameBytes);
}

}  // namespace warpline
