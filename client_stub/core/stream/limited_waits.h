// Waits for streams, events and devices that end at a deadline: functions of warpline.h, and the
// synchronizing calls of CUDA while WARPLINE_WAIT_SECONDS is set.
//
// Such a wait reads the completion board and asks the server nothing, so a device that hangs keeps
// no thread for longer, however often one tries again.
#ifndef WARPLINE_CLIENT_STUB_CORE_STREAM_LIMITED_WAITS_H_
#define WARPLINE_CLIENT_STUB_CORE_STREAM_LIMITED_WAITS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/runtime.h"

namespace warpline::stub {

// Returns true if CUDA's own calls have a deadline.
inline bool WaitsAreLimited() { return runtime().wait_limit < absl::InfiniteDuration(); }

// Each waits for what was sent so far, and returns what a synchronizing call returns; or
// CUDA_ERROR_TIMEOUT after `limit`, when the wait may be tried again. For a legacy stream that
// includes the work of the blocking streams.
CUresult AwaitStream(const Stream& stream, absl::Duration limit);
CUresult AwaitCommand(uint64_t stream, uint64_t seq, absl::Duration limit);
CUresult AwaitDevice(const Device& device, absl::Duration limit);

// Called before a synchronous copy sends anything: returns when the stream's earlier work is
// complete if waits have a deadline, and otherwise at once.
CUresult AwaitTurn(const Stream& stream);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_LIMITED_WAITS_H_
