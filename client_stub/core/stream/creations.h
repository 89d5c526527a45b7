// The outcome of making a stream or an event. Their commands are one-way, so that making them does
// not wait; but the server refuses what is beyond the session's limits, and the call that asked for
// it has to say so.
#ifndef WARPLINE_CLIENT_STUB_CORE_STREAM_CREATIONS_H_
#define WARPLINE_CLIENT_STUB_CORE_STREAM_CREATIONS_H_

#include <cstdint>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/runtime.h"

namespace warpline::stub {

// Waits until the server has taken the command `seq`, and returns the error with which it refused
// it; CUDA_SUCCESS if it did not, and the session's error when that is lost. The failure of another
// command is left for the next wait that reports it.
CUresult RefusalOf(uint64_t seq);

// To be called after the command `seq`, which makes something, has been sent. If the limits may be
// near it returns RefusalOf(seq), and then the caller withdraws what was refused; otherwise
// CUDA_SUCCESS. `streams` and `handles` are how many streams, and how many streams and events, this
// process had before; `streams` is 0 where no stream is made.
CUresult ConfirmCreation(uint64_t seq, uint64_t streams, uint64_t handles);

// Has the server drop what it may have made before it refused the creation. A server that has made
// nothing refuses `destroy`, and the program does not hear of that.
template <typename Destroy>
void Withdraw(const Destroy& destroy) {
  (void)RefusalOf(runtime().commands->Send(destroy));
}

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_CREATIONS_H_
