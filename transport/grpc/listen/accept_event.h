// What the tags in the accepting thread's completion queue point to. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_LISTEN_ACCEPT_EVENT_H_
#define WARPLINE_TRANSPORT_GRPC_LISTEN_ACCEPT_EVENT_H_

namespace warpline::grpc_internal {

class AcceptEvent {
 public:
  virtual ~AcceptEvent() = default;
  // Called on the accepting thread, once per event. May destroy the object, and must do so without
  // starting anything when `ok` is false.
  virtual void OnEvent(bool ok) = 0;
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_LISTEN_ACCEPT_EVENT_H_
