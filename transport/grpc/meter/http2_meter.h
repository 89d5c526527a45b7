// Counts what the client of an HTTP/2 connection makes the server's HTTP/2 layer do for nothing.
// That layer (gRPC 1.51) keeps each stream that was opened and reset until the application has
// taken its call, answers each SETTINGS and PING, and bounds neither (CVE-2023-44487 and its
// relatives). Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_METER_HTTP2_METER_H_
#define WARPLINE_TRANSPORT_GRPC_METER_HTTP2_METER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "transport/grpc/meter/allowance.h"
#include "transport/grpc/meter/frame_reader.h"

namespace warpline::grpc_internal {

// The streams that clients of all connections abandon: those that end before the server has ended
// them by an answer. However many connections there are, these are bounded. Thread-safe.
class AbandonedStreams {
 public:
  // Each of them costs some 13 kB until its call has been taken.
  static constexpr double kMost = 2048;
  static constexpr double kEachSecond = 256;

  // Notes one more. Returns false when there are too many.
  bool Take(absl::Time now) {
    MutexLock lock(&mu_);
    return allowance_.Take(now);
  }

 private:
  Mutex mu_;
  Allowance allowance_ ABSL_GUARDED_BY(mu_){kMost, kEachSecond};
};

// One connection's meter. Not thread-safe.
class Http2Meter {
 public:
  // Of one connection, with what is given back each second.
  static constexpr double kMostAbandoned = 100;
  static constexpr double kAbandonedEachSecond = 10;
  // A connection may abandon this many while all together abandon too many.
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

  // `all` must outlive the meter.
  explicit Http2Meter(AbandonedStreams* all) : all_(all) {}

  // Takes what was received: the preface of the connection first. Returns nullptr while the
  // connection may go on. Otherwise it returns what there is too much of, for a log line, and the
  // connection should be closed.
  const char* Received(std::string_view bytes, absl::Time now);
  // Takes what was sent. Too much of it shows in the next Received().
  void Sent(std::string_view bytes, absl::Time now);

  // Returns the number of streams that the client has opened.
  uint64_t opened() const { return opened_; }

 private:
  void Take(const FrameHeader& frame, absl::Time now);
  void TakeSent(const FrameHeader& frame, absl::Time now);
  void Abandon(uint32_t stream, absl::Time now);
  void Spend(Allowance* allowance, const char* name, absl::Time now);

  AbandonedStreams* const all_;
  FrameReader in_{24};  // Of the connection preface (RFC 9113, section 3.4).
  FrameReader out_{0};
  absl::flat_hash_set<uint32_t> open_;  // Streams that neither end has ended.
  uint32_t last_stream_ = 0;
  uint64_t opened_ = 0;
  Allowance abandoned_{kMostAbandoned, kAbandonedEachSecond};
  Allowance idle_{kMostIdle, kIdleEachSecond};
  Allowance acks_{kMostAcks, kAcksEachSecond};
  const char* flood_ = nullptr;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_METER_HTTP2_METER_H_
