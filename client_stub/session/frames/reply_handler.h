// Handles the server's answers to commands and its reports about them: the frames of kind kReplies.
#ifndef WARPLINE_CLIENT_STUB_SESSION_FRAMES_REPLY_HANDLER_H_
#define WARPLINE_CLIENT_STUB_SESSION_FRAMES_REPLY_HANDLER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "client_stub/session/frames/session_parts.h"
#include "common/cuda/cuda_result.h"
#include "proto/wire.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

// All of its input is untrusted.
class ReplyHandler {
 public:
  explicit ReplyHandler(const SessionParts& parts) : parts_(parts) {}

  // Returns false, with the reason in `*problem`, for input that a correct server does not send.
  bool Handle(std::string_view payload, std::string* problem) RUNS_ON(channel_loop);

 private:
  bool HandleReply(const ReplyView& reply, std::string* problem) RUNS_ON(channel_loop);
  bool HandleRetired(const ReplyView& reply, std::string* problem) RUNS_ON(channel_loop);
  bool HandleFailed(const ReplyView& reply, std::string* problem) RUNS_ON(channel_loop);
  bool HandleOutput(const ReplyView& reply) RUNS_ON(channel_loop);
  void CommandFailed(CommandId command, uint64_t seq, CudaResult result, std::string_view what)
      RUNS_ON(channel_loop);

  const SessionParts parts_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_FRAMES_REPLY_HANDLER_H_
