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
#include "transport/grpc/base/grpc_args.h"
#include "transport/grpc/base/grpc_process.h"
#include "transport/grpc/grpc_session.h"
#include "transport/grpc/listen/accept_event.h"
#include "transport/grpc/listen/address_listener.h"
#include "transport/grpc/listen/server_credentials.h"
#include "transport/grpc/unary/unary_responder.h"
#include "transport/loop_thread.h"

namespace warpline {
namespace {

using grpc_internal::AcceptEvent;
using grpc_internal::AddressListener;
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
      : options_(std::move(options)), unary_(options_.methods, options_.tls) {
    if (!options_.start_thread) options_.start_thread = &TryStartLoopThread;
    grpc_internal::StartGrpc(/*poll_per_queue=*/true);
  }

  absl::Status Start(const std::vector<std::string>& addresses, Acceptor* acceptor);
  void Shutdown(absl::Duration deadline);
  void SetServing(bool serving) { unary_.SetServing(serving); }
  std::vector<std::string> addresses() const { return addresses_; }
  int port() const { return port_; }
  int sessions() const { return running_.load(std::memory_order_relaxed); }

 private:
  class Arrival;

  void AcceptLoop();
  void StartSession(std::unique_ptr<GrpcSession> session);
  void RefuseSession(std::unique_ptr<GrpcSession> session, const absl::Status& status);
  void ReapFinished();

  GrpcServerOptions options_;  // Constant after construction.
  Acceptor* acceptor_ = nullptr;
  std::vector<std::string> addresses_;  // Constant after Start(), like the port.
  int port_ = 0;
  grpc_internal::GpuService service_;
  grpc_internal::UnaryResponder unary_;
  std::unique_ptr<grpc::ServerCompletionQueue> notifications_;
  std::vector<std::shared_ptr<grpc::ServerCredentials>> credentials_;  // gRPC keeps none of them.
  std::vector<std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>> acceptors_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::unique_ptr<AddressListener>> listeners_;
  std::thread accept_thread_;
  std::atomic<int> running_{0};

  // Of the accepting thread: what has still to be told that it is refused.
  std::vector<std::unique_ptr<GrpcSession>> refused_;

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
    session_ = std::make_unique<GrpcSession>(
        server->options_.channel, server->options_.max_frame_payload, server->options_.tls.get());
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
  grpc::ResourceQuota quota("warpline");
  quota.Resize(options_.max_buffer_bytes);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);

  for (const std::string& address : addresses) {
    listeners_.push_back(std::make_unique<AddressListener>(options_.max_connections));
    if (options_.own_user_only) {
      if (!absl::StartsWith(address, "unix:")) {
        return absl::UnavailableError(
            absl::StrCat("cannot listen on ", address, ": it is not for one user alone"));
      }
      listeners_.back()->TakeOwnUserOnly();
    }
    const absl::Status bound = listeners_.back()->Bind(address);
    if (!bound.ok()) return bound;
  }
  for (size_t i = 0; i < addresses.size(); ++i) {
    const bool plain = absl::StartsWith(addresses[i], "unix:") && !options_.tls_on_unix_sockets;
    credentials_.push_back(grpc_internal::MakeServerCredentials(plain ? nullptr : options_.tls));
    acceptors_.push_back(builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        credentials_.back()));
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
    return absl::UnavailableError("cannot start the gRPC server");
  }
  for (size_t i = 0; i < addresses.size(); ++i) {
    const int port = listeners_[i]->port();
    if (port_ == 0) port_ = port;
    const size_t host = addresses[i].rfind(':');
    addresses_.push_back(port == 0 ? addresses[i]
                                   : absl::StrCat(addresses[i].substr(0, host), ":", port));
  }
  unary_.Listen(notifications_.get());
  for (int i = 0; i < kRequestsAhead; ++i) new Arrival(this);
  accept_thread_ = StartLoopThread("wl-accept", [this] { AcceptLoop(); });
  for (size_t i = 0; i < listeners_.size(); ++i) {
    auto* const acceptor = acceptors_[i].get();
    const absl::Status started = listeners_[i]->Start([acceptor](int fd) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.fd = fd;
      acceptor->HandleNewConnection(&connection);
    });
    if (!started.ok()) {
      Shutdown(absl::ZeroDuration());
      return started;
    }
  }
  return absl::OkStatus();
}

void GrpcServer::Impl::AcceptLoop() {
  for (;;) {
    ReapFinished();
    void* tag;
    bool ok;
    grpc::CompletionQueue::NextStatus got;
    if (sessions() == 0 && refused_.empty()) {
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
  if (running_.load(std::memory_order_relaxed) >= options_.max_sessions) {
    return RefuseSession(std::move(session), absl::ResourceExhaustedError(
                                                 "the server has as many sessions as it takes"));
  }
  running_.fetch_add(1, std::memory_order_relaxed);
  GrpcSession* const raw = session.get();
  {
    MutexLock lock(&mu_);
    sessions_[raw] = std::move(session);
  }
  const absl::Status started = raw->Start(acceptor_, options_.start_thread, [this, raw] {
    MutexLock lock(&mu_);
    running_.fetch_sub(1, std::memory_order_relaxed);
    finished_.push_back(raw);
  });
  if (started.ok()) return;
  running_.fetch_sub(1, std::memory_order_relaxed);
  {
    MutexLock lock(&mu_);
    session = std::move(sessions_.extract(raw).mapped());
  }
  RefuseSession(std::move(session), started);
}

void GrpcServer::Impl::RefuseSession(std::unique_ptr<GrpcSession> session,
                                     const absl::Status& status) {
  session->Refuse(status);
  refused_.push_back(std::move(session));
}

void GrpcServer::Impl::ReapFinished() {
  std::erase_if(refused_, [](const auto& session) { return session->PollRefused(); });
  std::vector<std::unique_ptr<GrpcSession>> dead;  // Joined outside the lock.
  MutexLock lock(&mu_);
  for (GrpcSession* session : finished_) {
    dead.push_back(std::move(sessions_.extract(session).mapped()));
  }
  finished_.clear();
}

void GrpcServer::Impl::Shutdown(absl::Duration deadline) {
  if (server_ == nullptr) return;
  // Afterwards gRPC would leave new connections open.
  for (const auto& listener : listeners_) listener->Stop();
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(deadline));
  {
    MutexLock lock(&queue_mu_);
    queue_open_ = false;
    notifications_->Shutdown();
  }
  accept_thread_.join();
  // The calls have been cut.
  while (!refused_.empty()) {
    std::erase_if(refused_, [](const auto& session) { return session->PollRefused(); });
    if (!refused_.empty()) absl::SleepFor(kAcceptInterval);
  }
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
std::vector<std::string> GrpcServer::addresses() const { return impl_->addresses(); }
int GrpcServer::port() const { return impl_->port(); }
void GrpcServer::SetServing(bool serving) { impl_->SetServing(serving); }
int GrpcServer::sessions() const { return impl_->sessions(); }
void GrpcServer::Shutdown(absl::Duration deadline) { impl_->Shutdown(deadline); }

}  // namespace warpline
