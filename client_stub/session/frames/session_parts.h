// The parts of a session that its loop serves.
#ifndef WARPLINE_CLIENT_STUB_SESSION_FRAMES_SESSION_PARTS_H_
#define WARPLINE_CLIENT_STUB_SESSION_FRAMES_SESSION_PARTS_H_

#include "client_stub/session/commands/command_port.h"
#include "client_stub/session/connection/control_queue.h"
#include "client_stub/session/connection/relay_seeker.h"
#include "client_stub/session/connection/server_address.h"
#include "client_stub/session/frames/notice_sinks.h"
#include "client_stub/session/memory/memory_requester.h"
#include "common/cuda/cuda_result.h"
#include "common/log/log_budget.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

// All are borrowed.
struct SessionParts {
  CommandPort* commands = nullptr;
  ControlQueue* control = nullptr;  // Frames other than commands; they do not wait for the window.
  MemoryRequester* memory = nullptr;
  NoticeSinks* notices = nullptr;
  RelaySeeker* relays = nullptr;
  LogBudget* log = nullptr;
  ServerAddress* server = nullptr;

  // Makes the session lost; every wait of it ends with `error`.
  void Lose(CudaResult error) const RUNS_ON(channel_loop) {
    commands->Lose(error);
    memory->Lose(error);
    notices->HostDue(Notices::kNoToken);
  }
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_FRAMES_SESSION_PARTS_H_
