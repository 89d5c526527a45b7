// Events of a whole context: cuCtxRecordEvent and cuCtxWaitEvent.
#ifndef WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_EVENTS_H_
#define WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_EVENTS_H_

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// Records in the event the work that every stream of the context has been given so far.
CUresult RecordContext(const Context* context, Event* event);

// Orders all work that any stream of the process is given from now on after the event's latest
// record; for a green context's context all that streams of that are given.
CUresult HoldContext(const Context* context, Event* event);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_CONTEXT_CONTEXT_EVENTS_H_
