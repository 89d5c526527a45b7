#include "bench/network/packet_line.h"

#include <algorithm>

namespace warpline {

std::optional<LinkTime> PacketLine::Take(LinkTime now, LinkTime earliest, size_t wire_bytes) {
  if (settings_.down) return std::nullopt;
  if (settings_.loss > 0 && std::uniform_real_distribution<>()(random_) < settings_.loss) {
    return std::nullopt;
  }
  LinkTime sent = now;
  if (settings_.bits_per_second > 0) {
    const double nanoseconds_a_byte = 8e9 / settings_.bits_per_second;
    const auto waiting = static_cast<double>((free_at_ - now).count()) / nanoseconds_a_byte;
    if (waiting > static_cast<double>(settings_.queue_bytes)) return std::nullopt;
    free_at_ = std::max(earliest, free_at_) +
               std::chrono::nanoseconds(
                   static_cast<int64_t>(static_cast<double>(wire_bytes) * nanoseconds_a_byte));
    sent = std::max(now, free_at_);
  }
  last_due_ = std::max(last_due_, sent + settings_.delay);
  return last_due_;
}

}  // namespace warpline
