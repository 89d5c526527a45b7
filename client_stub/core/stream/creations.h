// The outcome of making a stream or an event. Their commands are one-way, so that making them does
// not wait; but the server refuses what is beyond the session's limits, and the call that asked for
// it has to say so.
#ifndef WARPLINE_CLIENT_STUB_CORE_STREAM_CREATIONS_H_
#define WARPLINE_CLIENT_STUB_CORE_STREAM_CREATIONS_H_

#include <cstdint>

#include "client_stub/core/base/cuda_api.h"

namespace warpline::stub {

// To be called after the command that makes something has been sent. Waits for the server to take
// the command if the limits may be near, and then returns CUDA_ERROR_OUT_OF_MEMORY if it was
// refused; CUDA_SUCCESS otherwise. `streams` and `handles` are how many streams, and how many
// streams and events, this process had before; `streams` is 0 where no stream is made.
CUresult ConfirmCreation(uint64_t streams, uint64_t handles);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_CREATIONS_H_
