// WireFrame (proto/session_service.proto) to and from gRPC's byte buffers, without protobuf's copy
// of the payload on the way out. Private to transport/grpc: it includes gRPC.
#ifndef WARPLINE_TRANSPORT_GRPC_BASE_WIRE_CODEC_H_
#define WARPLINE_TRANSPORT_GRPC_BASE_WIRE_CODEC_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "transport/channel.h"

namespace warpline::grpc_internal {

// What a peer may send beside the payload: tags, lengths, kind.
inline constexpr size_t kMaxWireOverhead = 32;

// Takes the frame's payload, or shares it. Small payloads are copied next to their header; large
// ones travel in the string's own memory, given up by whichever gRPC thread sends the last of it.
grpc::ByteBuffer EncodeFrame(Frame* frame);

// The last frame of a side that leaves with an error.
grpc::ByteBuffer EncodeClose(const absl::Status& status);

// Thread-compatible. Reuses its scratch memory from frame to frame.
class FrameDecoder {
 public:
  explicit FrameDecoder(size_t max_payload) : max_payload_(max_payload) {}

  // Parses one message. INVALID_ARGUMENT when it is malformed, has a field that WireFrame lacks, or
  // a payload above the limit; `*frame` is then unspecified. A close frame yields OK and the peer's
  // error in `*peer_close`, which is otherwise left alone.
  absl::Status Decode(const grpc::ByteBuffer& message, Frame* frame, absl::Status* peer_close);

 private:
  const size_t max_payload_;
  std::vector<grpc::Slice> slices_;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_BASE_WIRE_CODEC_H_
