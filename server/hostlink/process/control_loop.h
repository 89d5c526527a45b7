// The loop that keeps the books of a server: what sessions are, have and wait for.
//
// What belongs to it is ABSL_GUARDED_BY(control_loop), and what runs on it RUNS_ON(control_loop);
// see common/loop/loop_affinity.h. SessionHost has the loop itself.
#ifndef WARPLINE_SERVER_HOSTLINK_PROCESS_CONTROL_LOOP_H_
#define WARPLINE_SERVER_HOSTLINK_PROCESS_CONTROL_LOOP_H_

#include "common/loop/loop_affinity.h"  // IWYU pragma: export

namespace warpline {

inline constinit LoopAffinity control_loop;

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_PROCESS_CONTROL_LOOP_H_
