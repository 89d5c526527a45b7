// What the tags in the accepting thread's completion queue point to. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_LISTEN_ACCEPT_EVENT_H_
#define WARPLINE_TRANSPORT_GRPC_LISTEN_ACCEPT_EVENT_H_

#include "common/loop/loop_affinity.h"

namespace warpline::grpc_internal {

// The accepting threads of the process's servers; see common/loop/loop_affinity.h. Before a server
// has started its own, and once that has ended, the thread that starts or ends the server is one.
inline constinit LoopAffinity accept_loop;

class AcceptEvent {
 public:
  virtual ~AcceptEvent() = default;
  // Called once per event. May destroy the object, and must do so without starting anything when
  // `ok` is false.
  virtual void OnEvent(bool ok) RUNS_ON(accept_loop) = 0;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_LISTEN_ACCEPT_EVENT_H_
