// When, and whether, a link delivers the packets of one direction: the model without the devices.
//
//   PacketLine line({.delay = 500us, .bits_per_second = 1e9, .queue_bytes = 1 << 20});
//   if (const auto due = line.Take(now, now, bytes)) DeliverAt(*due);
#ifndef WARPLINE_BENCH_NETWORK_PACKET_LINE_H_
#define WARPLINE_BENCH_NETWORK_PACKET_LINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>

namespace warpline {

using LinkTime = std::chrono::steady_clock::time_point;

struct LineSettings {
  std::chrono::nanoseconds delay{0};  // From the last bit sent to the packet's arrival.
  double bits_per_second = 0;         // 0 for a line that sends at once.
  size_t queue_bytes = 0;             // A packet that finds more than this waiting is lost.
  double loss = 0;                    // The share of packets that is lost at random, 0 to 1.
  bool down = false;                  // All packets are lost.
};

// Thread-compatible. Lines with one seed lose the same packets of a row.
class PacketLine {
 public:
  PacketLine(const LineSettings& settings, uint64_t seed) : settings_(settings), random_(seed) {}

  // Returns when a packet arrives that takes `wire_bytes` on the line; nullopt if it is lost. It is
  // read at `now`, and has been there since `earliest` or later: a reader that is late does not
  // make the line slower. Packets arrive in the order in which they are read, also when the delay
  // has become shorter in between.
  std::optional<LinkTime> Take(LinkTime now, LinkTime earliest, size_t wire_bytes);

  // For packets that are handed over from now on.
  void Set(const LineSettings& settings) { settings_ = settings; }
  const LineSettings& settings() const { return settings_; }

 private:
  LineSettings settings_;
  std::mt19937_64 random_;
  LinkTime free_at_;   // When the last bit that was handed over has been sent.
  LinkTime last_due_;  // When the last packet arrives.
};

}  // namespace warpline

#endif  // WARPLINE_BENCH_NETWORK_PACKET_LINE_H_
