// Events, and whether the work that they recorded is complete.
#ifndef WARPLINE_CLIENT_STUB_CORE_STREAM_EVENTS_H_
#define WARPLINE_CLIENT_STUB_CORE_STREAM_EVENTS_H_

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// Returns nullptr for a handle that names no event.
Event* FindEvent(CUevent handle);

CUresult CreateEvent(Context* context, unsigned int flags, CUevent* event);
CUresult DestroyEvent(CUevent handle);
void DestroyEventsOf(const Context* context);

CUresult RecordEvent(Event* event, Stream* stream);
// Works like cuStreamWaitEvent without flags.
CUresult WaitForEvent(Stream* stream, const Event* event);

// Returns true when the latest record is complete, or the event was never recorded. Reads memory
// only.
bool EventComplete(const Event& event);
// Returns when the latest record is complete. Asks the server only if it is not complete yet.
CUresult SynchronizeEvent(Event* event);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_EVENTS_H_
