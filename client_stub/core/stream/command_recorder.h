// Takes the commands of a stream in place of the session, to learn what a graph's nodes would send.
#ifndef WARPLINE_CLIENT_STUB_CORE_STREAM_COMMAND_RECORDER_H_
#define WARPLINE_CLIENT_STUB_CORE_STREAM_COMMAND_RECORDER_H_

#include <string_view>

#include "client_stub/core/base/cuda_api.h"
#include "proto/commands.h"

namespace warpline::stub {

class CommandRecorder {
 public:
  virtual ~CommandRecorder() = default;
  // Returns CUDA_ERROR_NOT_SUPPORTED for a command that it cannot take.
  virtual CUresult Add(CommandId id, std::string_view fields, std::string_view tail) = 0;
};

template <typename Command>
CUresult Record(CommandRecorder* recorder, const Command& command, std::string_view tail) {
  return recorder->Add(CommandTraits<Command>::kId,
                       {reinterpret_cast<const char*>(&command), sizeof(command)}, tail);
}

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_COMMAND_RECORDER_H_
