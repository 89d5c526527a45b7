// The loop of a channel: the thread on which frames are sent and received, and on which the handler
// of its session is called.
//
// What belongs to it is ABSL_GUARDED_BY(channel_loop), and what runs on it RUNS_ON(channel_loop);
// see common/loop/loop_affinity.h. A process may have many channels, whose loops' threads all enter
// this one object.
#ifndef WARPLINE_TRANSPORT_CHANNEL_LOOP_H_
#define WARPLINE_TRANSPORT_CHANNEL_LOOP_H_

#include "common/loop/loop_affinity.h"  // IWYU pragma: export

namespace warpline {

inline constinit LoopAffinity channel_loop;

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_CHANNEL_LOOP_H_
