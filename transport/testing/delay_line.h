// One direction of a relayed connection: bytes that wait for their time.
#ifndef WARPLINE_TRANSPORT_TESTING_DELAY_LINE_H_
#define WARPLINE_TRANSPORT_TESTING_DELAY_LINE_H_

#include <cstddef>
#include <deque>
#include <string>

#include "absl/time/time.h"

namespace warpline {

// Thread-compatible. Both sockets are borrowed and non-blocking.
class DelayLine {
 public:
  DelayLine(int from, int to) : from_(from), to_(to) {}

  // Reads what is there; it is due at `due`. Notes the end of the stream in the same order. False
  // when the connection has failed.
  bool Receive(absl::Time due);

  // Writes what is due at `now`. False when the connection has failed.
  bool Deliver(absl::Time now);

  // Beyond a bound it reads no more until something was delivered.
  bool WantsToRead() const { return !ended_ && bytes_ < kMaxBytes; }
  // The last write found no room.
  bool WantsToWrite() const { return blocked_; }
  // When the next delivery is due; the infinite future when there is none or the socket is full.
  absl::Time NextDue() const;
  // The end of the stream was passed on.
  bool Done() const { return ended_ && chunks_.empty(); }

  int from() const { return from_; }

 private:
  static constexpr size_t kMaxBytes = 256 << 20;

  struct Chunk {
    absl::Time due;
    std::string bytes;  // None: the end of the stream.
  };

  const int from_;
  const int to_;
  std::deque<Chunk> chunks_;
  size_t bytes_ = 0;
  size_t written_ = 0;  // Of the first chunk.
  bool ended_ = false;
  bool blocked_ = false;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_TESTING_DELAY_LINE_H_
