#include "transport/grpc/grpc_server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/mutex.h"
#include "transport/grpc/accept_event.h"
#include "transport/grpc/grpc_args.h"
#include "transport/grpc/grpc_process.h"
#include "transport/grpc/grpc_session.h"
#include "transport/grpc/server_credentials.h"
#include "transport/grpc/unary_responder.h"
#include "transport/loop_thread.h"

namespace warpline {
namespace {

using grpc_internal::AcceptEvent;
using grpc_internal::GrpcSession;

// Calls that may arrive at once without waiting for the accepting thread.
constexpr int kRequestsAhead = 4;

// While sessions run, the accepting thread looks for new ones this often instead of waiting inside
// gRPC. Waiting there it would take the events of the sessions' connections, and each message would
// cost a switch to this thread and back.
constexpr absl::Duration kAcceptInterval = absl::Milliseconds(2);

}  // namespace

class GrpcServer::Impl {
 public:
  explicit Impl(GrpcServerOptions options)
      : options_(std::move(options)), unary_(options_.methods) {
    grpc_internal::StartGrpc(/*poll_per_queue=*/true);
  }

  absl::Status Start(const std::vector<std::string>& addresses, Acceptor* acceptor);
  void Shutdown(absl::Duration deadline);
  void SetServing(bool serving) { unary_.SetServing(serving); }
  int port() const { return port_; }
  int sessions() const { return running_.load(std::memory_order_relaxed); }

 private:
  class Arrival;

  void AcceptLoop();
  void StartSession(std::unique_ptr<GrpcSession> session);
  void ReapFinished();

  const GrpcServerOptions options_;
  Acceptor* acceptor_ = nullptr;
  int port_ = 0;
  grpc_internal::GpuService service_;
  grpc_internal::UnaryResponder unary_;
  std::unique_ptr<grpc::ServerCompletionQueue> notifications_;
  std::vector<std::shared_ptr<grpc::ServerCredentials>> credentials_;  // gRPC keeps none of them.
  std::unique_ptr<grpc::Server> server_;
  std::thread accept_thread_;
  std::atomic<int> running_{0};

  // Before mu_.
  Mutex queue_mu_;
  bool queue_open_ ABSL_GUARDED_BY(queue_mu_) = true;

  Mutex mu_;
  absl::flat_hash_map<GrpcSession*, std::unique_ptr<GrpcSession>> sessions_ ABSL_GUARDED_BY(mu_);
  std::vector<GrpcSession*> finished_ ABSL_GUARDED_BY(mu_);
};

// A session's call that is awaited.
class GrpcServer::Impl::Arrival : public AcceptEvent {
 public:
  explicit Arrival(Impl* server) : server_(server) {
    session_ =
        std::make_unique<GrpcSession>(server->options_.channel, server->options_.max_frame_payload);
    session_->Request(&server->service_, server->notifications_.get(), this);
  }

  void OnEvent(bool ok) override {
    if (ok) {
      new Arrival(server_);
      server_->StartSession(std::move(session_));
    }
    delete this;
  }

 private:
  Impl* const server_;
  std::unique_ptr<GrpcSession> session_;
};

absl::Status GrpcServer::Impl::Start(const std::vector<std::string>& addresses,
                                     Acceptor* acceptor) {
  ScopedSignalBlock block;
  if (options_.tls != nullptr) {
    const auto readable = options_.tls->Current();
    if (!readable.ok()) return readable.status();
  }
  acceptor_ = acceptor;
  grpc::ServerBuilder builder;
  grpc_internal::SetCommonArgs(
      options_.channel, options_.max_frame_payload,
      [&builder](const char* name, int value) { builder.AddChannelArgument(name, value); });
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options_.max_streams_per_connection);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             grpc_internal::ToMilliseconds(options_.handshake_timeout));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             grpc_internal::ToMilliseconds(options_.min_ping_interval));
  // Else a second server on the same port would silently take half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  grpc::ResourceQuota quota("warpline");
  quota.Resize(options_.max_buffer_bytes);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);

  std::vector<int> ports(addresses.size(), 0);
  for (size_t i = 0; i < addresses.size(); ++i) {
    const bool plain = absl::StartsWith(addresses[i], "unix:") && !options_.tls_on_unix_sockets;
    credentials_.push_back(grpc_internal::MakeServerCredentials(plain ? nullptr : options_.tls));
    builder.AddListeningPort(addresses[i], credentials_.back(), &ports[i]);
  }
  builder.RegisterService(&service_);
  unary_.Register(&builder);
  notifications_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    // The queue of a server that never started still has to be drained.
    notifications_->Shutdown();
    void* tag;
    bool ok;
    while (notifications_->Next(&tag, &ok)) {
    }
    notifications_.reset();
    for (size_t i = 0; i < addresses.size(); ++i) {
      if (ports[i] == 0) {
        return absl::UnavailableError(absl::StrCat("cannot listen on ", addresses[i]));
      }
    }
    return absl::UnavailableError("cannot start the gRPC server");
  }
  for (size_t i = 0; i < addresses.size() && port_ == 0; ++i) {
    if (!absl::StartsWith(addresses[i], "unix:")) port_ = ports[i];
  }
  unary_.Listen(notifications_.get());
  for (int i = 0; i < kRequestsAhead; ++i) new Arrival(this);
  accept_thread_ = StartLoopThread("wl-accept", [this] { AcceptLoop(); });
  return absl::OkStatus();
}

void GrpcServer::Impl::AcceptLoop() {
  for (;;) {
    ReapFinished();
    void* tag;
    bool ok;
    grpc::CompletionQueue::NextStatus got;
    if (sessions() == 0) {
      got = notifications_->Next(&tag, &ok) ? grpc::CompletionQueue::GOT_EVENT
                                            : grpc::CompletionQueue::SHUTDOWN;
    } else {
      got = notifications_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_MONOTONIC));
    }
    if (got == grpc::CompletionQueue::SHUTDOWN) return;
    if (got == grpc::CompletionQueue::GOT_EVENT) {
      // Nothing may be started on a queue that has been shut down.
      MutexLock lock(&queue_mu_);
      static_cast<AcceptEvent*>(tag)->OnEvent(ok && queue_open_);
    } else {
      absl::SleepFor(kAcceptInterval);
    }
  }
}

void GrpcServer::Impl::StartSession(std::unique_ptr<GrpcSession> session) {
  absl::Status refusal;
  if (running_.fetch_add(1, std::memory_order_relaxed) >= options_.max_sessions) {
    refusal = absl::ResourceExhaustedError("the server has as many sessions as it takes");
  }
  GrpcSession* const raw = session.get();
  {
    MutexLock lock(&mu_);
    sessions_[raw] = std::move(session);
  }
  raw->Start(acceptor_, std::move(refusal), [this, raw] {
    MutexLock lock(&mu_);
    running_.fetch_sub(1, std::memory_order_relaxed);
    finished_.push_back(raw);
  });
}

void GrpcServer::Impl::ReapFinished() {
  std::vector<std::unique_ptr<GrpcSession>> dead;  // Joined outside the lock.
  MutexLock lock(&mu_);
  for (GrpcSession* session : finished_) {
    dead.push_back(std::move(sessions_.extract(session).mapped()));
  }
  finished_.clear();
}

void GrpcServer::Impl::Shutdown(absl::Duration deadline) {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(deadline));
  {
    MutexLock lock(&queue_mu_);
    queue_open_ = false;
    notifications_->Shutdown();
  }
  accept_thread_.join();
  absl::flat_hash_map<GrpcSession*, std::unique_ptr<GrpcSession>> rest;
  {
    MutexLock lock(&mu_);
    rest.swap(sessions_);
    finished_.clear();
  }
  rest.clear();
  // Sessions that ended meanwhile have noted themselves again.
  {
    MutexLock lock(&mu_);
    finished_.clear();
  }
  server_.reset();
}

GrpcServer::GrpcServer(GrpcServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
GrpcServer::~GrpcServer() { impl_->Shutdown(absl::ZeroDuration()); }
absl::Status GrpcServer::Start(const std::vector<std::string>& addresses, Acceptor* acceptor) {
  return impl_->Start(addresses, acceptor);
}
int GrpcServer::port() const { return impl_->port(); }
void GrpcServer::SetServing(bool serving) { impl_->SetServing(serving); }
int GrpcServer::sessions() const { return impl_->sessions(); }
void GrpcServer::Shutdown(absl::Duration deadline) { impl_->Shutdown(deadline); }

}  // namespace warpline
