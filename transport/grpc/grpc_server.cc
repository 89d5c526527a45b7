#include "transport/grpc/grpc_server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log/keyed_log_budget.h"
#include "common/log/log.h"
#include "common/mutex.h"
#include "common/serving/listen_address.h"
#include "common/serving/stranger_book.h"
#include "transport/grpc/base/grpc_args.h"
#include "transport/grpc/base/grpc_process.h"
#include "transport/grpc/grpc_session.h"
#include "transport/grpc/listen/accept_event.h"
#include "transport/grpc/listen/accept_pace.h"
#include "transport/grpc/listen/address_listener.h"
#include "transport/grpc/listen/server_credentials.h"
#include "transport/grpc/meter/metered_connections.h"
#include "transport/grpc/unary/unary_responder.h"
#include "transport/loop_thread.h"

namespace warpline {
namespace {

using grpc_internal::accept_loop;
using grpc_internal::AcceptEvent;
using grpc_internal::AddressListener;
using grpc_internal::GrpcSession;
using grpc_internal::GrpcSessionEvents;

// Calls that may arrive at once without waiting for the accepting thread.
constexpr int kRequestsAhead = 4;

// How often it is looked whether a cut call has ended.
constexpr absl::Duration kRefusedInterval = absl::Milliseconds(2);

enum ServerLine : size_t { kCrowdedLine, kServerLineCount };
constexpr LogKind kEach[kServerLineCount] = {{"strangers_sent_away", 10, absl::Minutes(1)}};
constexpr LogKind kAll[kServerLineCount] = {{"strangers_sent_away", 100, absl::Seconds(10)}};

KeyedLogBudgetOptions LogOptions() {
  KeyedLogBudgetOptions options;
  options.each = kEach;
  options.all = kAll;
  return options;
}

// Returns false if calls arrive past the meters, as they would from a gRPC that was linked in
// another way. Then none is served.
bool IsMetered() {
  if (grpc_internal::MeteredStreams() > 0) return true;
  static const bool said = [] {
    LogError("calls are refused: this build of gRPC reads connections without their meters");
    return true;
  }();
  return !said;
}

StrangerBook::Id IdOf(GrpcSession* session) { return reinterpret_cast<uintptr_t>(session); }
GrpcSession* SessionOf(StrangerBook::Id id) { return reinterpret_cast<GrpcSession*>(id); }

}  // namespace

class GrpcServer::Impl : private GrpcSessionEvents {
 public:
  explicit Impl(GrpcServerOptions options)
      : options_(std::move(options)),
        unary_(options_.methods, options_.method_queues, options_.tls,
               [this](const std::string& name) { return TakeCall(name); }),
        strangers_(static_cast<size_t>(std::max(options_.max_strangers_of_peer, 1))),
        ending_(static_cast<size_t>(std::max(options_.max_strangers_of_peer, 1))) {
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

  struct Running {
    std::unique_ptr<GrpcSession> session;
    std::string connection;  // gRPC's name for it.
    std::string peer;
    bool admitted = false;
  };

  // GrpcSessionEvents.
  void OnAdmitted(GrpcSession* session) override;
  void OnEnding(GrpcSession* session) override;
  void OnDone(GrpcSession* session) override;

  // Whose connection or session it is, of those that share limits.
  std::string PeerOf(const GrpcSession& session) const RUNS_ON(accept_loop);
  // Notes that a call came on a connection. Returns false if it must not be answered.
  bool TakeCall(const std::string& connection);
  void LeaveConnection(Running* running) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The peer that had a session sent away for it; empty for none.
  std::string NoteStranger(GrpcSession* session, const std::string& peer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteEnding(GrpcSession* session, const std::string& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string SendAway(StrangerBook::Id stranger) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void AcceptLoop() RUNS_ON(accept_loop);
  void StartSession(std::unique_ptr<GrpcSession> session) RUNS_ON(accept_loop);
  void RefuseSession(std::unique_ptr<GrpcSession> session, const absl::Status& status)
      RUNS_ON(accept_loop);
  // Returns whether refusals are still under way.
  bool PollRefused() RUNS_ON(accept_loop);
  void ReapFinished() RUNS_ON(accept_loop);

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
  grpc_internal::AcceptPace pace_;
  std::thread accept_thread_;
  std::atomic<int> running_{0};

  // By peer, so that one that floods does not hide the names of others that do.
  KeyedLogBudget log_{LogOptions()};

  // What has still to be told that it is refused.
  std::vector<std::unique_ptr<GrpcSession>> refused_ ABSL_GUARDED_BY(accept_loop);

  // Before mu_.
  Mutex queue_mu_;
  bool queue_open_ ABSL_GUARDED_BY(queue_mu_) = true;

  // Before those of the listeners' books and of the sessions' loops.
  Mutex mu_;
  absl::flat_hash_map<GrpcSession*, Running> sessions_ ABSL_GUARDED_BY(mu_);
  std::vector<GrpcSession*> finished_ ABSL_GUARDED_BY(mu_);
  // Of those in sessions_ by IdOf(): those that were not admitted, and those that were told to end
  // with an error.
  StrangerBook strangers_ ABSL_GUARDED_BY(mu_);
  StrangerBook ending_ ABSL_GUARDED_BY(mu_);
};

// A session's call that is awaited.
class GrpcServer::Impl::Arrival : public AcceptEvent {
 public:
  explicit Arrival(Impl* server) RUNS_ON(accept_loop) : server_(server) {
    session_ = std::make_unique<GrpcSession>(
        server->options_.channel, server->options_.max_frame_payload, server->options_.tls.get(),
        static_cast<GrpcSessionEvents*>(server));
    session_->Request(&server->service_, server->notifications_.get(), this);
  }

  void OnEvent(bool ok) RUNS_ON(accept_loop) override {
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
      options_.channel, options_.max_frame_payload, options_.bulk,
      [&builder](const char* name, int value) { builder.AddChannelArgument(name, value); });
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options_.max_streams_per_connection);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             grpc_internal::ToMilliseconds(options_.handshake_timeout));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             grpc_internal::ToMilliseconds(options_.connection_idle));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             grpc_internal::ToMilliseconds(options_.min_ping_interval));
  grpc::ResourceQuota quota("warpline");
  quota.Resize(options_.max_buffer_bytes);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);

  const grpc_internal::ConnectionLimits limits = {
      .most = static_cast<size_t>(std::max(options_.max_connections, 1)),
      .most_strange_of_peer =
          static_cast<size_t>(std::max(options_.max_strange_connections_of_peer, 1))};
  for (const std::string& address : addresses) {
    listeners_.push_back(std::make_unique<AddressListener>(limits));
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
  {
    const LoopScope scope(&accept_loop);
    unary_.Listen(notifications_.get());
    for (int i = 0; i < kRequestsAhead; ++i) new Arrival(this);
  }
  accept_thread_ = StartLoopThread("wl-accept", [this] {
    const LoopScope scope(&accept_loop);
    AcceptLoop();
  });
  for (size_t i = 0; i < listeners_.size(); ++i) {
    auto* const acceptor = acceptors_[i].get();
    const absl::Status started = listeners_[i]->Start([this, acceptor](int fd) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.fd = fd;
      acceptor->HandleNewConnection(&connection);
      pace_.Quicken();
    });
    if (!started.ok()) {
      Shutdown(absl::ZeroDuration());
      return started;
    }
  }
  return absl::OkStatus();
}

// While sessions run, the accepting thread looks for new ones now and then instead of waiting
// inside gRPC. Waiting there it would take the events of the sessions' connections, and each
// message would cost a switch to this thread and back.
void GrpcServer::Impl::AcceptLoop() {
  for (;;) {
    ReapFinished();
    void* tag;
    bool ok;
    grpc::CompletionQueue::NextStatus got;
    if (sessions() == 0 && refused_.empty() && !unary_.Waits()) {
      got = notifications_->Next(&tag, &ok) ? grpc::CompletionQueue::GOT_EVENT
                                            : grpc::CompletionQueue::SHUTDOWN;
    } else {
      got = notifications_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_MONOTONIC));
    }
    if (got == grpc::CompletionQueue::SHUTDOWN) return;
    if (got == grpc::CompletionQueue::GOT_EVENT) {
      pace_.Quicken();
    } else {
      pace_.Pause();
    }
    // Nothing may be started on a queue that has been shut down.
    MutexLock lock(&queue_mu_);
    if (got == grpc::CompletionQueue::GOT_EVENT) {
      static_cast<AcceptEvent*>(tag)->OnEvent(ok && queue_open_);
    }
    if (queue_open_) unary_.Poll();
  }
}

void GrpcServer::Impl::StartSession(std::unique_ptr<GrpcSession> session) {
  if (!IsMetered()) {
    return RefuseSession(std::move(session), absl::InternalError("connections are not metered"));
  }
  if (running_.load(std::memory_order_relaxed) >= options_.max_sessions) {
    return RefuseSession(std::move(session), absl::ResourceExhaustedError(
                                                 "the server has as many sessions as it takes"));
  }
  running_.fetch_add(1, std::memory_order_relaxed);
  GrpcSession* const raw = session.get();
  const std::string peer = PeerOf(*raw);
  if (absl::StartsWith(peer, "uid=")) raw->SetUser(peer);
  std::string crowded;
  {
    MutexLock lock(&mu_);
    sessions_[raw] = {std::move(session), raw->ConnectionName(), peer};
    crowded = NoteStranger(raw, peer);
  }
  if (!crowded.empty()) {
    if (const LogPermit permit = log_.Ask(crowded, kCrowdedLine)) {
      permit.Warning("closed the oldest stream on which nothing was said yet, for a new one: peer=",
                     crowded, " has too many");
    }
  }
  const absl::Status started = raw->Start(acceptor_, options_.start_thread);
  if (started.ok()) return;
  running_.fetch_sub(1, std::memory_order_relaxed);
  {
    MutexLock lock(&mu_);
    session = std::move(sessions_.extract(raw).mapped().session);
    strangers_.Remove(IdOf(raw));
    ending_.Remove(IdOf(raw));
  }
  RefuseSession(std::move(session), started);
}

std::string GrpcServer::Impl::PeerOf(const GrpcSession& session) const {
  const std::string peer = session.Peer();
  // With names of its certificate.
  if (!PeerNames(peer).empty()) return std::string(PeerWithoutPort(peer));
  for (const auto& listener : listeners_) {
    std::string known = listener->connections().PeerOf(session.ConnectionName());
    if (!known.empty()) return known;
  }
  return std::string(PeerWithoutPort(peer));
}

bool GrpcServer::Impl::TakeCall(const std::string& connection) {
  for (const auto& listener : listeners_) listener->connections().Touch(connection);
  return IsMetered();
}

std::string GrpcServer::Impl::NoteStranger(GrpcSession* session, const std::string& peer) {
  if (const auto oldest = strangers_.Add(IdOf(session), peer)) return SendAway(*oldest);
  if (strangers_.size() <= static_cast<size_t>(std::max(options_.max_strangers, 1))) return "";
  const auto oldest = strangers_.TakeOldest();
  return oldest.has_value() ? SendAway(*oldest) : "";
}

std::string GrpcServer::Impl::SendAway(StrangerBook::Id stranger) {
  GrpcSession* const session = SessionOf(stranger);
  session->SendAway(
      absl::UnavailableError("too many streams came before this one said whose it is; try again"));
  const std::string& peer = sessions_.at(session).peer;
  NoteEnding(session, peer);
  return peer;
}

// A client that does not take its last word holds its session's thread for a while; not those of
// many.
void GrpcServer::Impl::NoteEnding(GrpcSession* session, const std::string& peer) {
  if (const auto oldest = ending_.Add(IdOf(session), peer)) SessionOf(*oldest)->Cut();
  if (ending_.size() <= static_cast<size_t>(std::max(options_.max_strangers, 1))) return;
  if (const auto oldest = ending_.TakeOldest()) SessionOf(*oldest)->Cut();
}

void GrpcServer::Impl::OnAdmitted(GrpcSession* session) {
  MutexLock lock(&mu_);
  Running& running = sessions_.at(session);
  // One that was sent away meanwhile is none any more.
  if (!strangers_.Remove(IdOf(session))) return;
  running.admitted = true;
  for (const auto& listener : listeners_) listener->connections().Admit(running.connection);
}

void GrpcServer::Impl::LeaveConnection(Running* running) {
  if (!std::exchange(running->admitted, false)) return;
  for (const auto& listener : listeners_) listener->connections().Leave(running->connection);
}

void GrpcServer::Impl::OnEnding(GrpcSession* session) {
  MutexLock lock(&mu_);
  Running& running = sessions_.at(session);
  const bool known = strangers_.Remove(IdOf(session)) || running.admitted;
  LeaveConnection(&running);
  // Not twice.
  if (known) NoteEnding(session, running.peer);
}

void GrpcServer::Impl::OnDone(GrpcSession* session) {
  MutexLock lock(&mu_);
  LeaveConnection(&sessions_.at(session));
  strangers_.Remove(IdOf(session));
  ending_.Remove(IdOf(session));
  running_.fetch_sub(1, std::memory_order_relaxed);
  finished_.push_back(session);
}

void GrpcServer::Impl::RefuseSession(std::unique_ptr<GrpcSession> session,
                                     const absl::Status& status) {
  session->Refuse(status);
  refused_.push_back(std::move(session));
}

bool GrpcServer::Impl::PollRefused() {
  std::erase_if(refused_,
                [](const auto& session) RUNS_ON(accept_loop) { return session->PollRefused(); });
  return !refused_.empty();
}

void GrpcServer::Impl::ReapFinished() {
  PollRefused();
  std::vector<std::unique_ptr<GrpcSession>> dead;  // Joined outside the lock.
  MutexLock lock(&mu_);
  for (GrpcSession* session : finished_) {
    dead.push_back(std::move(sessions_.extract(session).mapped().session));
  }
  finished_.clear();
}

void GrpcServer::Impl::Shutdown(absl::Duration deadline) {
  if (server_ == nullptr) return;
  // Afterwards gRPC would leave new connections open.
  for (const auto& listener : listeners_) listener->Stop();
  pace_.Quicken();
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(deadline));
  // What it answers goes to the queue.
  unary_.Stop();
  {
    MutexLock lock(&queue_mu_);
    queue_open_ = false;
    notifications_->Shutdown();
  }
  accept_thread_.join();
  {
    const LoopScope scope(&accept_loop);
    unary_.DropWaiting();
    // The calls have been cut.
    while (PollRefused()) absl::SleepFor(kRefusedInterval);
  }
  // Those that end are in the table until they have said so.
  std::vector<std::unique_ptr<GrpcSession>> rest;
  {
    MutexLock lock(&mu_);
    for (auto& [raw, running] : sessions_) rest.push_back(std::move(running.session));
  }
  rest.clear();
  {
    MutexLock lock(&mu_);
    sessions_.clear();
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
