#include "client_stub/core/module/link.h"

#include <utility>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/tier/tier_watch.h"

namespace warpline::stub {

Link::~Link() {
  if (wire_ != 0) runtime().commands->Send(cmd::LinkDestroy{wire_});
}

CUresult Link::Create() {
  MutexLock lock(&mu_);
  return Begin();
}

CUresult Link::Begin() {
  const uint64_t wire = runtime().NewNumber(device_);
  const CudaResult made =
      runtime().commands->Call(WaitKind::kRoundTrip, cmd::LinkCreate{wire}, options_.wire());
  if (runtime().tier_watch != nullptr) runtime().tier_watch->OnCall(made, "linker");
  const CUresult result = ToCu(made);
  if (result == CUDA_SUCCESS) {
    wire_ = wire;
  } else {
    runtime().commands->Send(cmd::LinkDestroy{wire});
  }
  return result;
}

CUresult Link::Send(const Input& input) {
  Commands& commands = *runtime().commands;
  const uint64_t image = runtime().NewNumber();
  const std::string_view data = input.data;
  for (size_t offset = 0; offset < data.size(); offset += kMaxTail) {
    const uint64_t seq =
        commands.Send(cmd::ImageData{image, data.size(), offset}, data.substr(offset, kMaxTail));
    if (seq == 0) return SentAs(seq);
  }
  const cmd::LinkAdd command = {wire_, image, static_cast<uint32_t>(input.type),
                                static_cast<uint32_t>(input.name.size())};
  return ToCu(commands.Call(WaitKind::kRoundTrip, command, input.name + input.options));
}

CUresult Link::Repeat() {
  WARPLINE_TRY(Begin());
  for (const Input& input : inputs_) WARPLINE_TRY(Send(input));
  return CUDA_SUCCESS;
}

CUresult Link::Add(CUjitInputType type, std::string_view data, std::string_view name,
                   std::string_view options) {
  MutexLock lock(&mu_);
  Input input = {type, std::string(data), std::string(name), std::string(options)};
  CUresult result = Send(input);
  if (result == CUDA_ERROR_INVALID_HANDLE) {
    WARPLINE_TRY(Repeat());
    result = Send(input);
  }
  WriteLog();
  if (result == CUDA_SUCCESS) inputs_.push_back(std::move(input));
  return result;
}

CUresult Link::Fetch() {
  Commands& commands = *runtime().commands;
  std::string reply;
  WARPLINE_TRY(ToCu(commands.Call(WaitKind::kRoundTrip, cmd::LinkComplete{wire_}, {}, &reply)));
  std::string_view rest = reply;
  cmd::LinkCompleteReply complete;
  if (!TakeStruct(&rest, &complete)) return CUDA_ERROR_UNKNOWN;
  std::string code;
  while (code.size() < complete.bytes) {
    std::string part;
    WARPLINE_TRY(
        ToCu(commands.Call(WaitKind::kRoundTrip, cmd::LinkRead{wire_, code.size()}, {}, &part)));
    const uint64_t left = complete.bytes - code.size();
    if (part.empty()) return CUDA_ERROR_UNKNOWN;
    code.append(part, 0, left);
  }
  code_ = std::move(code);
  return CUDA_SUCCESS;
}

CUresult Link::Complete(std::string_view* code) {
  MutexLock lock(&mu_);
  CUresult result = Fetch();
  if (result == CUDA_ERROR_INVALID_HANDLE) {
    WARPLINE_TRY(Repeat());
    result = Fetch();
  }
  WriteLog();
  *code = code_;
  return result;
}

void Link::WriteLog() {
  if (!options_.wants_log()) return;
  std::string reply;
  const CUresult result =
      ToCu(runtime().commands->Call(WaitKind::kRoundTrip, cmd::LinkLog{wire_}, {}, &reply));
  std::string_view rest = reply;
  cmd::LinkLogReply log;
  if (result != CUDA_SUCCESS || !TakeStruct(&rest, &log) || log.info_bytes > rest.size()) return;
  options_.WriteLog(log.wall_ms, rest.substr(0, log.info_bytes), rest.substr(log.info_bytes));
}

}  // namespace warpline::stub
