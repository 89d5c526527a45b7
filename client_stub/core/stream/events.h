// Events, and whether what they recorded is complete.
#ifndef WARPLINE_CLIENT_STUB_CORE_STREAM_EVENTS_H_
#define WARPLINE_CLIENT_STUB_CORE_STREAM_EVENTS_H_

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

// nullptr for what is no event.
Event* FindEvent(CUevent handle);

CUresult CreateEvent(Context* context, unsigned int flags, CUevent* event);
CUresult DestroyEvent(CUevent handle);
void DestroyEventsOf(const Context* context);

CUresult RecordEvent(Event* event, Stream* stream);
// As cuStreamWaitEvent without flags.
CUresult WaitForEvent(Stream* stream, const Event* event);

// True when the latest record is complete; an event never recorded is. Reads memory only.
bool EventComplete(const Event& event);
// Returns when the latest record is complete: from memory if it already is.
CUresult SynchronizeEvent(Event* event);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_STREAM_EVENTS_H_
