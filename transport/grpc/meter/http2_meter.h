// Counts what the client of an HTTP/2 connection makes the server's HTTP/2 layer do for nothing.
// That layer (gRPC 1.51) keeps each stream that was opened and reset until the application has
// taken its call, and answers each SETTINGS and PING. It bounds neither (CVE-2023-44487 and its
// relatives). It also keeps the bytes that a call's client sends until they are read, a window of
// each stream. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_METER_HTTP2_METER_H_
#define WARPLINE_TRANSPORT_GRPC_METER_HTTP2_METER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "transport/grpc/meter/allowance.h"
#include "transport/grpc/meter/frame_reader.h"

namespace warpline::grpc_internal {

// The streams that clients of all connections open and that the server does not end by an answer:
// those that either end resets, and those that end with their connection. However many connections
// there are, these are bounded. Thread-safe.
class AbandonedStreams {
 public:
  // Each of them costs some 13 kB until its call has been taken.
  static constexpr double kMost = 2048;
  static constexpr double kEachSecond = 256;

  // Notes one that is opened, since there may be no time for it later. Returns false when there are
  // too many.
  bool Take(absl::Time now) {
    MutexLock lock(&mu_);
    return allowance_.Take(now);
  }
  // One was answered.
  void Give() {
    MutexLock lock(&mu_);
    allowance_.Give(1);
  }

 private:
  Mutex mu_;
  Allowance allowance_ ABSL_GUARDED_BY(mu_){kMost, kEachSecond};
};

// The bytes of requests that clients of all connections have sent and the server has not read.
// Connections that carry a session are not counted: their windows are their sessions'. Thread-safe.
class UnreadBytes {
 public:
  // A stream's first window is 64 KiB for small calls and 8 MiB where sessions are served.
  static constexpr int64_t kMost = int64_t{16} << 20;

  void Change(int64_t by) { bytes_.fetch_add(by, std::memory_order_relaxed); }
  bool TooMany() const { return bytes_.load(std::memory_order_relaxed) > kMost; }

 private:
  std::atomic<int64_t> bytes_{0};
};

// One connection's meter. Not thread-safe.
class Http2Meter {
 public:
  // Of one connection, with what is given back each second.
  static constexpr double kMostAbandoned = 100;
  static constexpr double kAbandonedEachSecond = 10;
  // A connection may have this many, open or abandoned, while all together have too many.
  static constexpr double kAlwaysAbandoned = 2;
  // Frames that carry nothing: SETTINGS, PING, RST_STREAM, PRIORITY, CONTINUATION, GOAWAY, DATA
  // without data, and those of unknown types.
  static constexpr double kMostIdle = 2000;
  static constexpr double kIdleEachSecond = 200;
  // Acknowledgements and WINDOW_UPDATE. What the server sends earns more of them.
  static constexpr double kMostAcks = 20000;
  static constexpr double kAcksEachSecond = 2000;
  static constexpr double kAcksForData = 8;
  // A listener of ours allows 16 at most, and a client may not know that yet when it begins. gRPC
  // does not bound those that it has still to tell the client it has reset.
  static constexpr size_t kMostOpen = 32;
  // A connection may have this many bytes that nobody reads while all together have too many.
  static constexpr int64_t kAlwaysUnread = 64 << 10;

  // Both must outlive the meter.
  Http2Meter(AbandonedStreams* all, UnreadBytes* unread) : all_(all), all_unread_(unread) {}
  ~Http2Meter() { CountUnread(0); }
  Http2Meter(const Http2Meter&) = delete;
  Http2Meter& operator=(const Http2Meter&) = delete;

  // Takes what was received: the preface of the connection first. Returns nullptr while the
  // connection may go on. Otherwise it returns what there is too much of, for a log line, and the
  // connection should be closed.
  const char* Received(std::string_view bytes, absl::Time now);
  // Takes what was sent. Too much of it shows in the next Received().
  void Sent(std::string_view bytes, absl::Time now);

  // Tells whether a session is on the connection; none is at first.
  void SetAdmitted(bool admitted) { admitted_ = admitted; }
  // Returns the number of streams that the client has opened.
  uint64_t opened() const { return opened_; }

 private:
  void Take(const FrameHeader& frame, absl::Time now);
  void TakeSent(const FrameHeader& frame, absl::Time now);
  void Open(uint32_t stream, absl::Time now);
  void Abandon(uint32_t stream, absl::Time now);
  void Spend(Allowance* allowance, const char* name, absl::Time now);
  void AddUnread(uint32_t stream, int64_t bytes);
  // Returns false if the stream is not open.
  bool Close(uint32_t stream);
  // Has `bytes` counted for this connection among those of all.
  void CountUnread(int64_t bytes);

  AbandonedStreams* const all_;
  UnreadBytes* const all_unread_;
  FrameReader in_{24};  // Of the connection preface (RFC 9113, section 3.4).
  FrameReader out_{0};
  // Streams that neither end has ended, and what is unread of each: what has come, without what the
  // server has given windows for since. Less than 0 where it expects a large message.
  absl::flat_hash_map<uint32_t, int64_t> open_;
  int64_t unread_ = 0;  // The sum of those that are more than 0.
  int64_t counted_unread_ = 0;
  bool admitted_ = false;
  uint32_t last_stream_ = 0;
  uint64_t opened_ = 0;
  Allowance abandoned_{kMostAbandoned, kAbandonedEachSecond};
  Allowance idle_{kMostIdle, kIdleEachSecond};
  Allowance acks_{kMostAcks, kAcksEachSecond};
  const char* flood_ = nullptr;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_METER_HTTP2_METER_H_
