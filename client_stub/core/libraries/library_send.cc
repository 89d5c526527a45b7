#include "client_stub/core/libraries/library_send.h"

#include <string_view>

#include "client_stub/core/launch/launch.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"
#include "proto/commands.h"

namespace warpline::stub {

CUresult SendLibraryCall(Stream* stream, uint32_t function, uint32_t modes,
                         absl::Span<const uint64_t> values) {
  MirroredMemory::Work work(runtime().mirrored);
  WARPLINE_TRY(BeforeKernels(stream, &work));
  const std::string_view tail(reinterpret_cast<const char*>(values.data()),
                              values.size() * sizeof(values[0]));
  return SendOn(stream, cmd::LibraryCall{stream->wire, function, modes}, tail);
}

}  // namespace warpline::stub
