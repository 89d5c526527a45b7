// The threads that decode sessions' commands, one for each session of a worker's process.
//
// What belongs to a session's decoder is ABSL_GUARDED_BY(decoder_thread), and what runs on it
// RUNS_ON(decoder_thread); see common/loop/loop_affinity.h. The thread that opens a session is its
// decoder until the session's own has started.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_DECODER_THREAD_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_DECODER_THREAD_H_

#include "common/loop/loop_affinity.h"  // IWYU pragma: export

namespace warpline::worker {

inline constinit LoopAffinity decoder_thread;

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_DECODER_THREAD_H_
