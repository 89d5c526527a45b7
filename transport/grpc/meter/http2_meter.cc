#include "transport/grpc/meter/http2_meter.h"

namespace warpline::grpc_internal {
namespace {

// RFC 9113, section 6.
enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kRstStream = 3,
  kSettings = 4,
  kPing = 6,
  kWindowUpdate = 8,
};
constexpr uint8_t kAck = 0x1;        // Of SETTINGS and PING.
constexpr uint8_t kEndStream = 0x1;  // Of DATA and HEADERS.
constexpr uint8_t kPadded = 0x8;     // Of DATA, whose length says nothing then.

constexpr char kAbandonedName[] = "streams that it resets or breaks";
constexpr char kIdleName[] = "frames that carry nothing";
constexpr char kAckName[] = "acknowledgements and window updates";
constexpr char kOpenName[] = "open streams";

}  // namespace

const char* Http2Meter::Received(std::string_view bytes, absl::Time now) {
  in_.Read(bytes, [&](const FrameHeader& frame) {
    Take(frame, now);
    return flood_ == nullptr;
  });
  return flood_;
}

void Http2Meter::Sent(std::string_view bytes, absl::Time now) {
  out_.Read(bytes, [&](const FrameHeader& frame) {
    TakeSent(frame, now);
    return true;
  });
}

void Http2Meter::Take(const FrameHeader& frame, absl::Time now) {
  switch (frame.type) {
    case kHeaders:
      if (frame.stream <= last_stream_) break;
      last_stream_ = frame.stream;
      ++opened_;
      open_.insert(frame.stream);
      if (open_.size() > kMostOpen) flood_ = kOpenName;
      return;
    case kData: {
      const bool ends = (frame.flags & kEndStream) != 0;
      const bool carries = frame.bytes > 0 && (frame.flags & kPadded) == 0;
      if (ends || carries) return;
      break;
    }
    case kRstStream:
      Abandon(frame.stream, now);
      break;
    case kSettings:
    case kPing:
      if ((frame.flags & kAck) != 0) return Spend(&acks_, kAckName, now);
      break;
    case kWindowUpdate:
      return Spend(&acks_, kAckName, now);
    default:
      break;
  }
  Spend(&idle_, kIdleName, now);
}

void Http2Meter::TakeSent(const FrameHeader& frame, absl::Time now) {
  if (frame.type == kData) {
    acks_.Give(kAcksForData);
  } else if (frame.type == kHeaders && (frame.flags & kEndStream) != 0) {
    open_.erase(frame.stream);
  } else if (frame.type == kRstStream) {
    // The server resets a stream that has broken the protocol, and its call ends in the same way.
    Abandon(frame.stream, now);
  }
}

void Http2Meter::Abandon(uint32_t stream, absl::Time now) {
  if (open_.erase(stream) == 0) return;
  const bool free = abandoned_.taken() < kAlwaysAbandoned;
  if (!abandoned_.Take(now) || (!all_->Take(now) && !free)) flood_ = kAbandonedName;
}

void Http2Meter::Spend(Allowance* allowance, const char* name, absl::Time now) {
  if (!allowance->Take(now)) flood_ = name;
}

}  // namespace warpline::grpc_internal
