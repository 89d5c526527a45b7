// Calls of libraries' functions that the server executes, for the libraries beside this one
// (client_stub/shim/library_abi.h).
#include "client_stub/core/libraries/library_calls.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "client_stub/core/graph/capture.h"
#include "client_stub/core/libraries/library_send.h"
#include "client_stub/core/memory/device_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/capture_state.h"
#include "client_stub/core/stream/streams.h"
#include "proto/adapters/library_call.h"
#include "proto/commands.h"

namespace {

using namespace warpline;        // NOLINT(google-build-using-namespace)
using namespace warpline::stub;  // NOLINT(google-build-using-namespace)

CUresult Check(uint32_t function, uint32_t modes, absl::Span<const uint64_t> values) {
  const LibraryFunction* const found = FindLibraryFunction(function);
  if (found == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  LibraryCall call;
  WARPLINE_TRY(ToCu(ReadLibraryCall(*found, modes, values, &call)));
  for (const LibraryOperand& operand : call.operands) {
    if (operand.bytes == 0) continue;
    const uint64_t last = operand.address + (operand.bytes - 1);
    // The server's gate refuses it too, but the program would hear of that later.
    if (!runtime().memory->InArena(operand.address) || !runtime().memory->InArena(last)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult Find(uint32_t* version) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(nullptr, DefaultStream::kLegacy, &stream));
  std::string reply;
  const cmd::LibraryFind command = {stream->device->number, 0};
  WARPLINE_TRY(ToCu(runtime().commands->Call(WaitKind::kRoundTrip, command, {}, &reply)));
  std::string_view rest = reply;
  cmd::LibraryFindReply found;
  if (!TakeStruct(&rest, &found)) return CUDA_ERROR_UNKNOWN;
  // An older server lacks functions of this table.
  if (found.functions < AllLibraryFunctions().size()) return CUDA_ERROR_NOT_SUPPORTED;
  *version = found.version;
  return CUDA_SUCCESS;
}

CUresult Call(CUstream handle, uint32_t function, uint32_t modes,
              absl::Span<const uint64_t> values) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(handle, DefaultStream::kLegacy, &stream));
  WARPLINE_TRY(Check(function, modes, values));
  if (Captured(*stream)) {
    return CaptureLibraryCall(stream, {function, modes, {values.begin(), values.end()}});
  }
  WARPLINE_TRY(SendLibraryCall(stream, function, modes, values));
  return runtime().launch_blocking ? SynchronizeStream(stream) : CUDA_SUCCESS;
}

CUresult Ask(warpline_library_question* question) {
  Stream* stream;
  WARPLINE_TRY(EnterOn(nullptr, DefaultStream::kLegacy, &stream));
  const cmd::LibraryAsk command = {stream->device->number, question->function, question->modes,
                                   question->question};
  const std::string_view tail(reinterpret_cast<const char*>(question->values),
                              question->count * sizeof(question->values[0]));
  std::string reply;
  WARPLINE_TRY(ToCu(runtime().commands->Call(WaitKind::kRoundTrip, command, tail, &reply)));
  std::string_view rest = reply;
  cmd::LibraryAskReply answer;
  if (!TakeStruct(&rest, &answer)) return CUDA_ERROR_UNKNOWN;
  question->found = std::min(answer.count, question->most);
  const uint64_t bytes = uint64_t{question->found} * question->bytes;
  if (rest.size() < bytes) return CUDA_ERROR_UNKNOWN;
  std::memcpy(question->answers, rest.data(), bytes);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" CUresult warpline_library_find(unsigned* version) { return Find(version); }

extern "C" CUresult warpline_library_call(CUstream stream, unsigned function, unsigned modes,
                                          const uint64_t* values, unsigned count) {
  return Call(stream, function, modes, {values, count});
}

extern "C" CUresult warpline_library_ask(warpline_library_question* question) {
  return Ask(question);
}
