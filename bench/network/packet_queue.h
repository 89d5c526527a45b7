// Packets on their way, first in, first out, in one piece of memory that is used in a circle.
#ifndef WARPLINE_BENCH_NETWORK_PACKET_QUEUE_H_
#define WARPLINE_BENCH_NETWORK_PACKET_QUEUE_H_

#include <cstddef>
#include <deque>
#include <memory>

#include "absl/strings/string_view.h"
#include "bench/network/packet_line.h"

namespace warpline {

// Thread-compatible.
class PacketQueue {
 public:
  static constexpr size_t kMostBytes = 66'000;  // The longest packet, with its OffloadHeader.

  explicit PacketQueue(size_t capacity) : capacity_(capacity), bytes_(new char[capacity]) {}

  // Where the next packet can be written, kMostBytes long; null while there is no room.
  char* Room();
  // Appends a packet that was written to Room().
  void Push(size_t bytes, LinkTime due);

  bool empty() const { return entries_.empty(); }
  LinkTime due() const { return entries_.front().due; }
  absl::string_view front() const {
    return {bytes_.get() + entries_.front().at, entries_.front().bytes};
  }
  void Pop() { entries_.pop_front(); }

 private:
  struct Entry {
    size_t at;
    size_t bytes;
    LinkTime due;
  };

  const size_t capacity_;
  const std::unique_ptr<char[]> bytes_;  // The system provides what is touched.
  std::deque<Entry> entries_;
  size_t end_ = 0;  // Where the next packet goes.
};

}  // namespace warpline

#endif  // WARPLINE_BENCH_NETWORK_PACKET_QUEUE_H_
