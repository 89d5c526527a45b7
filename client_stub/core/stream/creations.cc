#include "client_stub/core/stream/creations.h"

#include <string>

namespace warpline::stub {
namespace {

// Half of each limit: the server also counts streams that were destroyed and still work, and
// handles of other kinds. The other half is what a server allows that does not tell.
constexpr uint64_t kStreams = 1024 / 2;
constexpr uint64_t kHandles = (1 << 20) / 2;

bool MayBeRefused(uint64_t streams, uint64_t handles) {
  const SessionTerms& terms = *runtime().terms;
  return streams >= (terms.max_streams != 0 ? terms.max_streams / 2 : kStreams) ||
         handles >= (terms.max_handles != 0 ? terms.max_handles / 2 : kHandles);
}

}  // namespace

CUresult RefusalOf(uint64_t seq) {
  // The refusal of an earlier command comes before the answer to any later one. Whatever this one
  // answers, it waits for no work of the device.
  std::string reply;
  runtime().commands->Call(WaitKind::kRoundTrip, cmd::LimitGet{CU_LIMIT_STACK_SIZE, 0}, {}, &reply);
  WARPLINE_TRY(SessionError());
  return ToCu(runtime().status->TakeFailureOf(seq));
}

CUresult ConfirmCreation(uint64_t seq, uint64_t streams, uint64_t handles) {
  return MayBeRefused(streams, handles) ? RefusalOf(seq) : CUDA_SUCCESS;
}

}  // namespace warpline::stub
