// A message of proto/session.proto as the payload of a frame.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_MESSAGE_FRAME_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_MESSAGE_FRAME_H_

#include "proto/frames.h"
#include "transport/channel.h"

namespace warpline::server {

template <typename Message>
Frame FrameOf(FrameKind kind, const Message& message) {
  Frame frame;
  frame.kind = kind;
  frame.payload = message.SerializeAsString();
  return frame;
}

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_MESSAGE_FRAME_H_
