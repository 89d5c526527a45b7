#include "client_stub/core/stream/limited_waits.h"

#include <algorithm>
#include <vector>

#include "client_stub/core/managed/mirrored_memory.h"

namespace warpline::stub {
namespace {

// A command, and all before it on its stream.
struct Sent {
  uint64_t stream;
  uint64_t seq;
};

Sent LatestOf(const Stream& stream) {
  return {stream.wire, stream.last_seq.load(std::memory_order_acquire)};
}

CUresult AwaitAll(const std::vector<Sent>& sent, absl::Duration limit) {
  Runtime& r = runtime();
  const CudaResult result = r.commands->WatchWithin(WaitKind::kSynchronize, limit, [&] {
    return std::all_of(sent.begin(), sent.end(), [&](const Sent& command) {
      return r.commands->Retired(command.stream, command.seq);
    });
  });
  // Nothing was written that the application may take for complete.
  if (result != CudaResult::kTimeout) r.mirrored->AfterWait();
  return ToCu(result);
}

}  // namespace

CUresult AwaitStream(const Stream& stream, absl::Duration limit) {
  std::vector<Sent> sent = {LatestOf(stream)};
  if (stream.legacy()) {
    runtime().streams.ForEach([&](const Stream& other, uint64_t) {
      if (other.blocking() && other.device == stream.device) sent.push_back(LatestOf(other));
      return true;
    });
  }
  return AwaitAll(sent, limit);
}

CUresult AwaitCommand(uint64_t stream, uint64_t seq, absl::Duration limit) {
  return AwaitAll({{stream, seq}}, limit);
}

CUresult AwaitDevice(const Device& device, absl::Duration limit) {
  Runtime& r = runtime();
  if (!r.several_devices()) return AwaitCommand(kNoStream, r.commands->last_seq(), limit);
  std::vector<Sent> sent = {LatestOf(device.legacy),
                            {kNoStream, r.last_of_destroyed_streams.load()}};
  r.streams.ForEach([&](const Stream& stream, uint64_t) {
    if (stream.device == &device) sent.push_back(LatestOf(stream));
    return true;
  });
  return AwaitAll(sent, limit);
}

CUresult AwaitTurn(const Stream& stream) {
  if (!WaitsAreLimited() || stream.recorder != nullptr) return CUDA_SUCCESS;
  return AwaitStream(stream, runtime().wait_limit);
}

}  // namespace warpline::stub
