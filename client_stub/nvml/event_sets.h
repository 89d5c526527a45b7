/* Sets of events, in which nothing ever happens. C.
 *
 * NVML's events, above all errors of a device, concern the whole device and thus every tenant on
 * it, so they are not passed on. A set can be made, waited for and freed.
 *
 * All functions are thread-safe, take no lock and so work in the child of a fork, which has the
 * sets of its parent. A handle is compared, never followed: a set that was freed is told from one
 * that is there until some thousand others have been made. */
#ifndef WARPLINE_CLIENT_STUB_NVML_EVENT_SETS_H_
#define WARPLINE_CLIENT_STUB_NVML_EVENT_SETS_H_

#include <stdint.h>

/* A set belongs to one kind only. */
enum WarplineEventSetKind { kWarplineDeviceEvents = 1, kWarplineSystemEvents = 2 };

/* Returns a new set; NULL while there are 4096 of both kinds. */
void* WarplineEventSetCreate(enum WarplineEventSetKind kind);
int WarplineEventSetIsOne(const void* set, enum WarplineEventSetKind kind);
/* Frees a set, and returns whether it was one. Threads that wait for it return at once. */
int WarplineEventSetFree(void* set, enum WarplineEventSetKind kind);
/* Returns when the time is up, the set is freed, or a handler has taken a signal. */
void WarplineEventSetWait(const void* set, enum WarplineEventSetKind kind, uint32_t timeout_ms);

#endif /* WARPLINE_CLIENT_STUB_NVML_EVENT_SETS_H_ */
