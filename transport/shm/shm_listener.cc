#include "transport/shm/shm_listener.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/channel_loop.h"
#include "transport/link_loop.h"
#include "transport/loop_thread.h"
#include "transport/shm/shm_address.h"
#include "transport/shm/shm_end.h"
#include "transport/shm/shm_packets.h"
#include "transport/unix_connect.h"

namespace warpline::shm_internal {
namespace {

constexpr int kBacklog = 64;
// The first power of two above two frames of any size. Pages come as they are used.
constexpr size_t kRingBytes = size_t{4} << 20;

size_t AtLeastOne(int number) { return static_cast<size_t>(std::max(number, 1)); }

// The rings of a new connection, and its server's end.
struct Made {
  ConnectionRings for_client;
  std::unique_ptr<ShmEnd> end;
};

absl::StatusOr<Made> MakeEnd(UniqueFd socket) {
  auto to_server = CreateRing(kRingBytes);
  if (!to_server.ok()) return to_server.status();
  auto to_client = CreateRing(kRingBytes);
  if (!to_client.ok()) return to_client.status();
  auto up = to_server->Duplicate();
  if (!up.ok()) return up.status();
  auto down = to_client->Duplicate();
  if (!down.ok()) return down.status();
  auto end = ShmEnd::Create(std::move(socket), *std::move(to_client), *std::move(to_server));
  if (!end.ok()) return end.status();
  return Made{{*std::move(up), *std::move(down)}, *std::move(end)};
}

bool IsOwnProcess(int socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == getpid();
}

}  // namespace

// A connection and its thread.
class ShmListener::Session : public Channel {
 public:
  Session(ShmListener* listener, uint64_t id, std::string peer, int socket, Made made)
      : listener_(listener),
        id_(id),
        peer_(std::move(peer)),
        socket_(socket),
        rings_(std::move(made.for_client)),
        loop_(std::move(made.end), listener->options_.channel) {}
  ~Session() override {
    loop_.Cancel();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Start() {
    auto thread = TryStartLoopThread("wl-chan", [this] {
      const LoopScope scope(&channel_loop);
      Run();
      over_.store(true, std::memory_order_release);
      listener_->OnOver();
    });
    if (!thread.ok()) return thread.status();
    thread_ = *std::move(thread);
    return absl::OkStatus();
  }

  const char* transport() const override { return "shm"; }
  void Wake() override { loop_.Wake(); }
  void Admit() override { listener_->OnAdmitted(id_); }
  void Close(const absl::Status& status) override { loop_.Close(status); }
  void Cut() { loop_.Cancel(); }
  bool over() const { return over_.load(std::memory_order_acquire); }

 private:
  void Run() RUNS_ON(channel_loop) {
    absl::Status refusal;
    const std::unique_ptr<SessionHandler> handler = listener_->acceptor_->Accept(peer_, &refusal);
    if (handler == nullptr) {
      if (refusal.ok()) refusal = absl::InternalError("session refused without a reason");
      return SendStatus(socket_, refusal);
    }
    handler->Started(this);
    SendTaken(socket_, rings_);
    rings_ = {};
    loop_.Run(handler.get());
  }

  ShmListener* const listener_;
  const uint64_t id_;
  const std::string peer_;
  const int socket_;  // Owned by the loop's end.
  ConnectionRings rings_ ABSL_GUARDED_BY(channel_loop);
  LinkLoop loop_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

ShmListener::ShmListener(ListenerOptions options)
    : options_(std::move(options)), strangers_(AtLeastOne(options_.max_strangers_of_peer)) {}

ShmListener::~ShmListener() { End(absl::ZeroDuration()); }

absl::Status ShmListener::Start(const std::vector<std::string>& addresses, Acceptor* acceptor) {
  if (options_.own_user_only) {
    return absl::UnavailableError("a name for shared memory is no user's own");
  }
  acceptor_ = acceptor;
  bell_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell_.valid()) return absl::UnavailableError("no descriptor is left to listen with");
  for (const std::string& address : addresses) {
    const auto name = ShmName(address);
    if (!name.ok()) return name.status();
    auto socket = ListenAbstract(*name, kBacklog);
    if (!socket.ok()) return socket.status();
    sockets_.push_back(*std::move(socket));
  }
  auto thread = TryStartLoopThread("wl-shm", [this] { Accept(); });
  if (!thread.ok()) return absl::UnavailableError(thread.status().message());
  thread_ = *std::move(thread);
  addresses_ = addresses;
  return absl::OkStatus();
}

void ShmListener::Accept() {
  std::vector<pollfd> fds = {{.fd = bell_.get(), .events = POLLIN, .revents = 0}};
  for (const UniqueFd& socket : sockets_) {
    fds.push_back({.fd = socket.get(), .events = POLLIN, .revents = 0});
  }
  while (true) {
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    uint64_t rung;
    if (fds[0].revents != 0) {
      [[maybe_unused]] const ssize_t got = read(bell_.get(), &rung, sizeof(rung));
      Reap();
      MutexLock lock(&mu_);
      if (stopping_) return;
    }
    for (size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      UniqueFd socket(accept4(fds[i].fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.valid()) {
        TakeConnection(std::move(socket));
      } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        // Without a descriptor for it the connection stays, and would be tried without end.
        absl::SleepFor(absl::Milliseconds(10));
      }
    }
  }
}

void ShmListener::TakeConnection(UniqueFd socket) {
  const auto user = ListenerOf(socket.get());
  if (!user.ok()) return;
  if (Running() >= options_.max_sessions) {
    return SendStatus(socket.get(), absl::ResourceExhaustedError("too many sessions"));
  }
  const int fd = socket.get();
  auto made = MakeEnd(std::move(socket));
  if (!made.ok()) return;
  const std::string peer = absl::StrCat("unix:uid=", *user);
  MutexLock lock(&mu_);
  if (stopping_) return;
  const uint64_t id = ++last_id_;
  auto session = std::make_unique<Session>(this, id, peer, fd, *std::move(made));
  // The last one over takes the lock, so that it is in the table by then.
  if (!session->Start().ok()) return;
  sessions_[id] = std::move(session);
  if (options_.trusts_own_process && IsOwnProcess(fd)) return;
  if (const auto oldest = strangers_.Add(id, peer)) {
    sessions_.at(*oldest)->Close(absl::UnavailableError("too many strangers of this peer"));
  }
  MakeRoom();
}

void ShmListener::MakeRoom() {
  while (strangers_.size() > AtLeastOne(options_.max_strangers)) {
    const auto oldest = strangers_.TakeOldest();
    if (!oldest.has_value()) return;
    sessions_.at(*oldest)->Close(absl::UnavailableError("too many strangers"));
  }
}

void ShmListener::OnAdmitted(uint64_t id) {
  MutexLock lock(&mu_);
  strangers_.Remove(id);
}

void ShmListener::OnOver() {
  {
    MutexLock lock(&mu_);
    changed_.NotifyAll();
  }
  Ring();
}

void ShmListener::Reap() {
  std::vector<std::unique_ptr<Session>> dead;  // Joined outside the lock.
  MutexLock lock(&mu_);
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    if (!it->second->over()) {
      ++it;
      continue;
    }
    strangers_.Remove(it->first);
    dead.push_back(std::move(it->second));
    it = sessions_.erase(it);
  }
}

void ShmListener::Ring() {
  const uint64_t once = 1;
  [[maybe_unused]] const ssize_t written = write(bell_.get(), &once, sizeof(once));
}

int ShmListener::Running() const {
  MutexLock lock(&mu_);
  return static_cast<int>(std::count_if(sessions_.begin(), sessions_.end(),
                                        [](const auto& entry) { return !entry.second->over(); }));
}

void ShmListener::End(absl::Duration deadline) {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (thread_.joinable()) {
    Ring();
    thread_.join();
  }
  sockets_.clear();
  const absl::Time until = absl::Now() + deadline;
  while (Running() > 0 && absl::Now() < until) {
    MutexLock lock(&mu_);
    changed_.WaitWithTimeout(&mu_, std::min(until - absl::Now(), absl::Milliseconds(50)));
  }
  std::map<uint64_t, std::unique_ptr<Session>> rest;
  MutexLock lock(&mu_);
  rest.swap(sessions_);
}

}  // namespace warpline::shm_internal
