// Small unary methods on a completion queue that somebody else drains: grpc.health.v1.Health/Check
// and those that the server's owner adds. Private to transport/grpc.
//
// gRPC's own ways to serve them bring threads that wait on every connection of the server and so
// take the events of sessions away from the threads that spin for them, at the price of a thread
// switch per message.
//
// Check answers with one status for every service name, without looking at the request, unless the
// owner's methods have it. Anything unknown (Health/Watch included, which clients are to take for
// "healthy") is UNIMPLEMENTED.
#ifndef WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_RESPONDER_H_
#define WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_RESPONDER_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "transport/grpc/listen/accept_event.h"
#include "transport/grpc/tls/grpc_tls.h"
#include "transport/grpc/unary/read_turns.h"
#include "transport/grpc/unary/unary_queues.h"
#include "transport/unary_methods.h"

namespace warpline::grpc_internal {

// SetServing() is thread-safe. Outlives the queue.
class UnaryResponder {
 public:
  // `tls` is the listener's, null for none. `called` is told gRPC's name of the connection of each
  // call, and says whether the call may be answered.
  UnaryResponder(UnaryMethods methods, UnaryMethodQueues queues, std::shared_ptr<TlsSource> tls,
                 std::function<bool(const std::string& connection)> called)
      : methods_(std::move(methods)),
        queue_of_(std::move(queues)),
        tls_(std::move(tls)),
        called_(std::move(called)) {}

  // Before the server is built.
  void Register(grpc::ServerBuilder* builder) { builder->RegisterAsyncGenericService(&service_); }

  // After it was started: waits for the first calls. Their events come as AcceptEvent tags.
  void Listen(grpc::ServerCompletionQueue* queue) RUNS_ON(accept_loop);
  // Answers what waits in queues. Before the queue is shut down, by whoever does
  // that.
  void Stop();

  // Lets calls read their requests, and ends those that take too long while others wait. Called
  // after each event, and again and again while Waits() returns true.
  void Poll() RUNS_ON(accept_loop);
  bool Waits() const RUNS_ON(accept_loop) { return turns_.waits(); }

  // Drops the calls that wait to read: nothing comes of them. After the queue was shut down.
  void DropWaiting() RUNS_ON(accept_loop);

  void SetServing(bool serving) { serving_.store(serving, std::memory_order_relaxed); }

 private:
  class Call;

  const UnaryMethods methods_;
  const UnaryMethodQueues queue_of_;
  const std::shared_ptr<TlsSource> tls_;
  const std::function<bool(const std::string& connection)> called_;
  std::unique_ptr<UnaryQueues> queues_;  // From Listen() on.
  ReadTurns turns_ ABSL_GUARDED_BY(accept_loop);
  // Those that wait for their turn to read, or read.
  std::map<ReadTurns::Id, Call*> readers_ ABSL_GUARDED_BY(accept_loop);
  ReadTurns::Id last_reader_ ABSL_GUARDED_BY(accept_loop) = 0;
  grpc::AsyncGenericService service_;
  std::atomic<bool> serving_{false};
};

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_UNARY_UNARY_RESPONDER_H_
