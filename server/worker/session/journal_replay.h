// Makes a session again in a new worker, from the journal that the former worker kept.
#ifndef WARPLINE_SERVER_WORKER_SESSION_JOURNAL_REPLAY_H_
#define WARPLINE_SERVER_WORKER_SESSION_JOURNAL_REPLAY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/worker/commands/command_handler.h"
#include "server/worker/continuity/continuity.h"
#include "server/worker/executors/decoder_thread.h"
#include "server/worker/session/decoder.h"

namespace warpline::worker {

// Runs what the journal holds, and lets the session go on after command `seq`. Called before
// anything else is decoded; `parts` must have a recorder. ABORTED when the session cannot be as it
// was, FAILED_PRECONDITION with several devices, CANCELLED when the session ends meanwhile.
absl::Status ReplayJournal(uint64_t seq, const CommandParts& parts, Continuity* continuity,
                           Decoder* decoder) RUNS_ON(decoder_thread);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_SESSION_JOURNAL_REPLAY_H_
