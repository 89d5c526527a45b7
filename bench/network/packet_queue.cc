#include "bench/network/packet_queue.h"

namespace warpline {

char* PacketQueue::Room() {
  if (entries_.empty()) end_ = 0;  // These bytes are in the processor's cache.
  const size_t begin = entries_.empty() ? capacity_ : entries_.front().at;
  if (!entries_.empty() && end_ > begin) {
    if (capacity_ - end_ >= kMostBytes) return bytes_.get() + end_;
    end_ = 0;
  }
  // The end never meets the beginning of what is there: that would look like an empty circle.
  return begin - end_ > kMostBytes ? bytes_.get() + end_ : nullptr;
}

void PacketQueue::Push(size_t bytes, LinkTime due) {
  entries_.push_back({.at = end_, .bytes = bytes, .due = due});
  end_ += bytes;
}

}  // namespace warpline
