#include "server/relay/bulk/bulk_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/crypto/secret.h"
#include "common/packets/packet_socket.h"
#include "proto/relay.pb.h"
#include "transport/tcp/socket_address.h"

namespace warpline::relay {
namespace {

using warpline_internal::FromRelay;
using warpline_internal::ToRelay;

constexpr int kBacklog = 128;
// So many connections are taken before others have their turn.
constexpr int kTakenAtOnce = 16;
// To show the secret.
constexpr absl::Duration kStrangersPatience = absl::Seconds(2);
// Bytes that were moved are told so much later.
constexpr absl::Duration kReportDelay = absl::Milliseconds(100);

}  // namespace

absl::StatusOr<UniqueFd> ListenForBulk(const std::string& ip, uint32_t first_port,
                                       uint32_t last_port) {
  for (uint32_t port = first_port; port <= std::min<uint32_t>(last_port, UINT16_MAX); ++port) {
    const auto address = SocketAddress::Of(ip, static_cast<uint16_t>(port));
    if (!address.ok()) return address.status();
    UniqueFd fd(socket(address->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return absl::ResourceExhaustedError("no socket");
    const int on = 1;
    (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd.get(), address->get(), address->size()) == 0 && listen(fd.get(), kBacklog) == 0) {
      return fd;
    }
    if (errno != EADDRINUSE) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen at ", ip, ": ", std::strerror(errno)));
    }
  }
  return absl::UnavailableError(
      absl::StrCat("no port from ", first_port, " to ", last_port, " is free"));
}

BulkServer::BulkServer(UniqueFd listening, int server, std::string secret, bool tls)
    : listening_(std::move(listening)),
      server_(server),
      secret_(std::move(secret)),
      tls_(tls),
      memory_([this](uint32_t slot, uint64_t va, uint64_t bytes) {
        FromRelay message;
        message.mutable_memory()->set_slot(slot);
        message.mutable_memory()->set_va(va);
        message.mutable_memory()->set_bytes(bytes);
        return SendPacket(server_, message, {});
      }),
      host_{&memory_, [this](uint64_t bytes) { CountMoved(bytes); }} {
  loop_.Post([this] {
    bulk_loop.AssertOnLoop();
    server_watch_ = loop_.Watch(server_, [this] {
      bulk_loop.AssertOnLoop();
      OnServer();
    });
    listening_watch_ = loop_.Watch(listening_.get(), [this] {
      bulk_loop.AssertOnLoop();
      OnConnections();
    });
  });
}

BulkServer::~BulkServer() {
  loop_.Post([this] {
    bulk_loop.AssertOnLoop();
    StopWatching(&server_watch_);
    StopWatching(&listening_watch_);
    while (!strangers_.empty()) Forget(strangers_.begin()->first);
    for (auto& connection : connections_) connection = nullptr;
  });
  loop_.Flush();
}

void BulkServer::StopWatching(EventLoop::Token* watch) {
  if (*watch != 0) loop_.Remove(std::exchange(*watch, 0));
}

void BulkServer::OnServer() {
  ToRelay message;
  std::vector<UniqueFd> fds;
  const absl::Status received = ReceivePacket(server_, &message, &fds);
  if (absl::IsNotFound(received)) return;
  const warpline_internal::RelayMemoryAnswer& memory = message.memory();
  // The server is gone, or says what is not due: then nobody gets memory any more.
  if (!received.ok() || !message.has_memory() ||
      !memory_
           .OnAnswer(memory.slot(), memory.answer(), fds.empty() ? UniqueFd() : std::move(fds[0]))
           .ok()) {
    StopWatching(&server_watch_);
    memory_.End();
  }
}

void BulkServer::OnConnections() {
  for (int i = 0; i < kTakenAtOnce; ++i) {
    UniqueFd fd(accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) return;
    OnConnection(std::move(fd));
  }
}

void BulkServer::OnConnection(UniqueFd fd) {
  // Who came first has had its time: one that floods keeps nobody else out for long.
  if (strangers_.size() >= kMostStrangers) Forget(strangers_.begin()->first);
  const int watched = fd.get();
  std::unique_ptr<TlsStream> stream;
  if (tls_) {
    auto made = TlsStream::Create(std::move(fd), TlsStream::Role::kAccepts, secret_);
    if (!made.ok()) return;
    stream = *std::move(made);
  }
  const uint64_t id = ++last_id_;
  Stranger& stranger = strangers_[id];
  stranger.stream = std::move(stream);
  stranger.watch = loop_.Watch(watched, [this, id] {
    bulk_loop.AssertOnLoop();
    tls_ ? OnTlsHello(id) : OnHello(id);
  });
  stranger.timer = loop_.RunAfter(kStrangersPatience, [this, id] {
    bulk_loop.AssertOnLoop();
    Forget(id);
  });
  stranger.fd = std::move(fd);
  if (stranger.watch == 0) Forget(id);
}

void BulkServer::OnHello(uint64_t id) {
  Stranger& stranger = strangers_.at(id);
  char* const to = reinterpret_cast<char*>(&stranger.hello) + stranger.got;
  const ssize_t got = recv(stranger.fd.get(), to, sizeof(stranger.hello) - stranger.got, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return Forget(id);
  stranger.got += static_cast<size_t>(got);
  if (stranger.got < sizeof(stranger.hello)) return;
  const BulkSocketHello hello = stranger.hello;
  const bool knows = EqualSecrets(absl::string_view(hello.secret, sizeof(hello.secret)), secret_);
  StopWatching(&stranger.watch);
  UniqueFd fd = std::move(stranger.fd);
  Forget(id);
  if (!knows) return;
  const int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0 || fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return;
  Welcome(std::make_unique<BulkSocket>(std::move(fd), BulkSocket::Unreachable::kRefuse),
          hello.slot);
}

void BulkServer::OnTlsHello(uint64_t id) {
  Stranger& stranger = strangers_.at(id);
  if (!stranger.shaken) {
    const auto step = stranger.stream->Shake();
    // A new socket takes all that this end says: a client for which it has to wait is none.
    if (!step.ok() || *step == TlsStream::Step::kWrites) return Forget(id);
    stranger.shaken = *step == TlsStream::Step::kDone;
    if (!stranger.shaken) return;
  }
  while (stranger.got < sizeof(stranger.tls_hello)) {
    char* const to = reinterpret_cast<char*>(&stranger.tls_hello) + stranger.got;
    const auto got = stranger.stream->Read(to, sizeof(stranger.tls_hello) - stranger.got);
    if (!got.ok()) return Forget(id);
    if (*got == 0) return;
    stranger.got += *got;
  }
  const uint32_t slot = stranger.tls_hello.slot;
  StopWatching(&stranger.watch);
  std::unique_ptr<TlsStream> stream = std::move(stranger.stream);
  Forget(id);
  if (slot == kSessionSlot) return WelcomeSession(std::move(stream));
  Welcome(std::make_unique<BulkSocket>(std::move(stream), BulkSocket::Unreachable::kRefuse), slot);
}

void BulkServer::WelcomeSession(std::unique_ptr<TlsStream> stream) {
  MutexLock lock(&mu_);
  if (std::exchange(session_came_, true)) return;
  session_ = std::move(stream);
  came_.NotifyAll();
}

absl::StatusOr<std::unique_ptr<TlsStream>> BulkServer::AwaitSession(absl::Time until) {
  MutexLock lock(&mu_);
  while (session_ == nullptr) {
    const absl::Duration left = until - absl::Now();
    if (left <= absl::ZeroDuration()) return absl::UnavailableError("nobody has connected");
    came_.WaitWithTimeout(&mu_, left);
  }
  return std::move(session_);
}

void BulkServer::Forget(uint64_t id) {
  const auto found = strangers_.find(id);
  if (found == strangers_.end()) return;
  StopWatching(&found->second.watch);
  StopWatching(&found->second.timer);
  strangers_.erase(found);
}

void BulkServer::Welcome(std::unique_ptr<BulkSocket> socket, uint32_t slot) {
  if (slot >= connections_.size()) return;
  // The one before moves nothing from now on.
  auto& connection = connections_[slot];
  connection = nullptr;
  auto started = BulkConnection::Start(std::move(socket), slot, &host_);
  if (started.ok()) connection = *std::move(started);
}

void BulkServer::CountMoved(uint64_t bytes) {
  moved_.fetch_add(bytes, std::memory_order_relaxed);
  if (report_due_.exchange(true)) return;
  loop_.Post([this] {
    bulk_loop.AssertOnLoop();
    loop_.RunAfter(kReportDelay, [this] {
      bulk_loop.AssertOnLoop();
      Report();
    });
  });
}

void BulkServer::Report() {
  report_due_.store(false);
  const uint64_t moved = moved_.exchange(0, std::memory_order_relaxed);
  if (moved == 0) return;
  FromRelay message;
  message.mutable_moved()->set_bytes(moved);
  // What the server does not hear it does not count.
  (void)SendPacket(server_, message, {});
}

}  // namespace warpline::relay
