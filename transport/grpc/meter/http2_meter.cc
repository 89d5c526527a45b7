#include "transport/grpc/meter/http2_meter.h"

#include <algorithm>

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

constexpr char kAbandonedName[] = "streams that it resets, breaks or leaves";
constexpr char kIdleName[] = "frames that carry nothing";
constexpr char kAckName[] = "acknowledgements and window updates";
constexpr char kOpenName[] = "open streams";
constexpr char kUnreadName[] = "bytes that it sends before they are asked for";

}  // namespace

const char* Http2Meter::Received(std::string_view bytes, absl::Time now) {
  in_.Read(bytes, [&](const FrameHeader& frame) {
    Take(frame, now);
    return flood_ == nullptr;
  });
  CountUnread(admitted_ ? 0 : unread_);
  if (all_unread_->TooMany() && counted_unread_ > kAlwaysUnread) flood_ = kUnreadName;
  return flood_;
}

void Http2Meter::Sent(std::string_view bytes, absl::Time now) {
  out_.Read(bytes, [&](const FrameHeader& frame) {
    TakeSent(frame, now);
    return true;
  });
  CountUnread(admitted_ ? 0 : unread_);
}

void Http2Meter::Take(const FrameHeader& frame, absl::Time now) {
  switch (frame.type) {
    case kHeaders:
      if (frame.stream <= last_stream_) break;
      return Open(frame.stream, now);
    case kData: {
      AddUnread(frame.stream, frame.bytes);
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
    if (Close(frame.stream)) all_->Give();
  } else if (frame.type == kWindowUpdate) {
    AddUnread(frame.stream, -static_cast<int64_t>(frame.window));
  } else if (frame.type == kRstStream) {
    // The server resets a stream that has broken the protocol, and its call ends in the same way.
    Abandon(frame.stream, now);
  }
}

void Http2Meter::Open(uint32_t stream, absl::Time now) {
  last_stream_ = stream;
  ++opened_;
  open_.emplace(stream, 0);
  if (open_.size() > kMostOpen) flood_ = kOpenName;
  const double has = abandoned_.taken() + static_cast<double>(open_.size());
  if (!all_->Take(now) && has > kAlwaysAbandoned) flood_ = kAbandonedName;
}

void Http2Meter::Abandon(uint32_t stream, absl::Time now) {
  if (Close(stream)) Spend(&abandoned_, kAbandonedName, now);
}

void Http2Meter::AddUnread(uint32_t stream, int64_t bytes) {
  const auto found = open_.find(stream);
  if (found == open_.end()) return;
  unread_ -= std::max<int64_t>(found->second, 0);
  found->second += bytes;
  unread_ += std::max<int64_t>(found->second, 0);
}

bool Http2Meter::Close(uint32_t stream) {
  const auto found = open_.find(stream);
  if (found == open_.end()) return false;
  unread_ -= std::max<int64_t>(found->second, 0);
  open_.erase(found);
  return true;
}

void Http2Meter::CountUnread(int64_t bytes) {
  if (bytes == counted_unread_) return;
  all_unread_->Change(bytes - counted_unread_);
  counted_unread_ = bytes;
}

void Http2Meter::Spend(Allowance* allowance, const char* name, absl::Time now) {
  if (!allowance->Take(now)) flood_ = name;
}

}  // namespace warpline::grpc_internal
