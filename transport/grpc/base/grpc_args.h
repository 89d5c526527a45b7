// The gRPC settings that both ends share. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_BASE_GRPC_ARGS_H_
#define WARPLINE_TRANSPORT_GRPC_BASE_GRPC_ARGS_H_

#include <grpc/grpc.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"
#include "transport/channel.h"
#include "transport/grpc/base/wire_codec.h"

namespace warpline::grpc_internal {

// What HTTP/2 flow control lets a peer send ahead on one stream at first. gRPC then follows its
// estimate of what fits between the two ends, without which a connection over 10 ms carries a tenth
// of what it could. An unread stream holds that much; GrpcServerOptions::max_buffer_bytes bounds
// the sum.
inline constexpr int kFirstWindow = 8 << 20;
// The same where nothing large is sent. It stays that.
inline constexpr int kSmallWindow = 64 << 10;

// gRPC's own limit on a message, somewhat above ours: a frame between the two is refused by
// FrameDecoder, which can tell the peer why.
inline constexpr int kMessageSlack = 64 << 10;

// In the initial metadata of a session that the acceptor took.
inline constexpr char kTakenKey[] = "wl-taken";

// On the status of a session that the acceptor refused, so that a client does not take it for a
// failure to connect.
inline constexpr char kRefusedKey[] = "wl-refused";

inline int ToMilliseconds(absl::Duration duration) {
  const int64_t ms = absl::ToInt64Milliseconds(duration);
  return static_cast<int>(std::clamp<int64_t>(ms, 1, std::numeric_limits<int>::max()));
}

// `set` is called with (name, integer). With `bulk` windows grow with what fits between the ends.
template <typename Set>
void SetCommonArgs(const ChannelOptions& options, size_t max_payload, bool bulk, Set set) {
  set(GRPC_ARG_KEEPALIVE_TIME_MS, ToMilliseconds(options.keepalive));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ToMilliseconds(options.keepalive_timeout));
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
      static_cast<int>(max_payload + kMaxWireOverhead) + kMessageSlack);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, bulk ? kFirstWindow : kSmallWindow);
  set(GRPC_ARG_HTTP2_BDP_PROBE, bulk ? 1 : 0);
  set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 2 << 20);
  // Nothing is compressed, and a compressed message is refused as malformed: no bombs.
  set(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  set(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  set(GRPC_ARG_ENABLE_CHANNELZ, 0);
}

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_BASE_GRPC_ARGS_H_
