// Small unary methods on a completion queue that somebody else drains: grpc.health.v1.Health/Check
// and those that the server's owner adds. Private to transport/grpc.
//
// gRPC's own ways to serve them bring threads that wait on every connection of the server and so
// take the events of sessions away from the threads that spin for them, at the price of a thread
// switch per message.
//
// Check answers with one status for every service name, without looking at the request. Anything
// unknown (Health/Watch included, which clients are to take for "healthy") is UNIMPLEMENTED.
#ifndef WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_RESPONDER_H_
#define WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_RESPONDER_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <memory>
#include <utility>

#include "transport/grpc/listen/accept_event.h"
#include "transport/grpc/tls/grpc_tls.h"
#include "transport/unary_methods.h"

namespace warpline::grpc_internal {

// Except SetServing(), which is thread-safe, runs on the accepting thread. Outlives the queue.
class UnaryResponder {
 public:
  // `tls` is the listener's, null for none.
  UnaryResponder(UnaryMethods methods, std::shared_ptr<TlsSource> tls)
      : methods_(std::move(methods)), tls_(std::move(tls)) {}

  // Before the server is built.
  void Register(grpc::ServerBuilder* builder) { builder->RegisterAsyncGenericService(&service_); }

  // After it was started: waits for the first calls. Their events come as AcceptEvent tags.
  void Listen(grpc::ServerCompletionQueue* queue);

  void SetServing(bool serving) { serving_.store(serving, std::memory_order_relaxed); }

 private:
  class Call;

  const UnaryMethods methods_;
  const std::shared_ptr<TlsSource> tls_;
  grpc::AsyncGenericService service_;
  std::atomic<bool> serving_{false};
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_RESPONDER_H_
