#include "transport/testing/delay_relay.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "transport/loop_thread.h"
#include "transport/testing/delay_line.h"

namespace warpline {
namespace {

struct Address {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

absl::StatusOr<Address> ParseAddress(const std::string& text) {
  Address address;
  absl::string_view path = text;
  if (absl::ConsumePrefix(&path, "unix:")) {
    auto* name = reinterpret_cast<sockaddr_un*>(&address.storage);
    if (path.empty() || path.size() >= sizeof(name->sun_path)) {
      return absl::InvalidArgumentError(absl::StrCat("bad path in \"", text, "\""));
    }
    name->sun_family = AF_UNIX;
    std::memcpy(name->sun_path, path.data(), path.size());
    address.size = sizeof(sockaddr_un);
    return address;
  }
  const size_t colon = text.rfind(':');
  int port;
  if (colon == std::string::npos || !absl::SimpleAtoi(text.substr(colon + 1), &port)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not host:port"));
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string host = text.substr(0, colon);
  if (getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("no such host: ", host));
  }
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

UniqueFd MakeSocket(const Address& address) {
  UniqueFd fd(socket(address.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

// A connection and its continuation.
struct Pair {
  Pair(UniqueFd a, UniqueFd b)
      : near(std::move(a)),
        far(std::move(b)),
        there(near.get(), far.get()),
        back(far.get(), near.get()) {}
  UniqueFd near;
  UniqueFd far;
  DelayLine there;
  DelayLine back;
};

void Reset(const Pair& pair) {
  const linger hard = {.l_onoff = 1, .l_linger = 0};
  setsockopt(pair.near.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  setsockopt(pair.far.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

}  // namespace

class DelayRelay::Impl {
 public:
  Impl(Address target, absl::Duration delay) : target_(target), delay_(delay) {}

  ~Impl() {
    if (!thread_.joinable()) return;
    {
      MutexLock lock(&mu_);
      stop_ = true;
    }
    Notify();
    thread_.join();
  }

  absl::Status Listen(const Address& address, const std::string& text) {
    listener_ = MakeSocket(address);
    wake_ = UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    const int on = 1;
    setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in6 bound = {};
    socklen_t size = sizeof(bound);
    if (bind(listener_.get(), address.get(), address.size) != 0 ||
        listen(listener_.get(), 64) != 0 ||
        getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
      return absl::UnavailableError(absl::StrCat("cannot listen on ", text, ": ", strerror(errno)));
    }
    port_ = ntohs(bound.sin6_port);  // In the same place for IPv4.
    thread_ = StartLoopThread("wl-relay", [this] { Run(); });
    return absl::OkStatus();
  }

  int port() const { return port_; }

  void SetDelay(absl::Duration delay) {
    MutexLock lock(&mu_);
    delay_ = delay;
  }
  int Cut() {
    MutexLock lock(&mu_);
    const int before = cut_connections_;
    const int round = ++cuts_asked_;
    Notify();
    while (cuts_done_ < round) cut_.Wait(&mu_);
    return cut_connections_ - before;
  }
  void SetStalled(bool stalled) {
    {
      MutexLock lock(&mu_);
      stalled_ = stalled;
    }
    Notify();
  }

 private:
  void Notify() { eventfd_write(wake_.get(), 1); }

  void Run() {
    while (TakeRequests()) {
      const absl::Time now = absl::Now();
      if (!stalled_now_) {
        std::erase_if(pairs_, [now](const std::unique_ptr<Pair>& pair) {
          return !pair->there.Deliver(now) || !pair->back.Deliver(now) ||
                 (pair->there.Done() && pair->back.Done());
        });
      }
      Poll();
    }
  }

  // False when the relay stops.
  bool TakeRequests() {
    MutexLock lock(&mu_);
    if (cuts_done_ < cuts_asked_) {
      for (const auto& pair : pairs_) Reset(*pair);
      cut_connections_ += static_cast<int>(pairs_.size());
      pairs_.clear();
      cuts_done_ = cuts_asked_;
      cut_.NotifyAll();
    }
    stalled_now_ = stalled_;
    delay_now_ = delay_;
    return !stop_;
  }

  void Poll() {
    std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}};
    absl::Time due = absl::InfiniteFuture();
    if (!stalled_now_) {
      polled.push_back({listener_.get(), POLLIN, 0});
      for (const auto& pair : pairs_) {
        due = std::min({due, pair->there.NextDue(), pair->back.NextDue()});
        polled.push_back(Interest(pair->there, pair->back));
        polled.push_back(Interest(pair->back, pair->there));
      }
    }
    const timespec timeout =
        absl::ToTimespec(std::clamp(due - absl::Now(), absl::ZeroDuration(), absl::Hours(1)));
    ppoll(polled.data(), polled.size(), &timeout, nullptr);
    eventfd_t ignored;
    eventfd_read(wake_.get(), &ignored);
    if (stalled_now_) return;
    const absl::Time arrival_due = absl::Now() + delay_now_;
    std::vector<const Pair*> failed;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      Pair& pair = *pairs_[i];
      constexpr int kReadable = POLLIN | POLLHUP | POLLERR;
      const int near = polled[2 + 2 * i].revents;
      const int far = polled[3 + 2 * i].revents;
      if (((near & kReadable) && pair.there.WantsToRead() && !pair.there.Receive(arrival_due)) ||
          ((far & kReadable) && pair.back.WantsToRead() && !pair.back.Receive(arrival_due))) {
        failed.push_back(&pair);
      }
    }
    for (const Pair* pair : failed) {
      Reset(*pair);
      std::erase_if(pairs_, [pair](const auto& owned) { return owned.get() == pair; });
    }
    if (polled[1].revents != 0) AcceptOne();
  }

  // What to wait for on the socket that one line reads and the other writes. A socket of which
  // nothing is wanted is left out, since its hang-up would end every wait.
  static pollfd Interest(const DelayLine& reads, const DelayLine& writes) {
    const short events = (reads.WantsToRead() ? POLLIN : 0) | (writes.WantsToWrite() ? POLLOUT : 0);
    return {events == 0 ? -1 : reads.from(), events, 0};
  }

  void AcceptOne() {
    UniqueFd near(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!near.valid()) return;
    const int on = 1;
    setsockopt(near.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    UniqueFd far = MakeSocket(target_);
    if (connect(far.get(), target_.get(), target_.size) != 0 && errno != EINPROGRESS) return;
    pairs_.push_back(std::make_unique<Pair>(std::move(near), std::move(far)));
  }

  const Address target_;
  UniqueFd listener_;
  UniqueFd wake_;
  int port_ = 0;
  std::thread thread_;

  // Of the thread alone.
  std::vector<std::unique_ptr<Pair>> pairs_;
  bool stalled_now_ = false;
  absl::Duration delay_now_;

  Mutex mu_;
  CondVar cut_;
  absl::Duration delay_ ABSL_GUARDED_BY(mu_);
  int cuts_asked_ ABSL_GUARDED_BY(mu_) = 0;
  int cuts_done_ ABSL_GUARDED_BY(mu_) = 0;
  int cut_connections_ ABSL_GUARDED_BY(mu_) = 0;
  bool stalled_ ABSL_GUARDED_BY(mu_) = false;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
};

absl::StatusOr<std::unique_ptr<DelayRelay>> DelayRelay::Start(const std::string& listen,
                                                              const std::string& target,
                                                              absl::Duration delay) {
  const absl::StatusOr<Address> listen_address = ParseAddress(listen);
  if (!listen_address.ok()) return listen_address.status();
  const absl::StatusOr<Address> target_address = ParseAddress(target);
  if (!target_address.ok()) return target_address.status();
  auto impl = std::make_unique<Impl>(*target_address, delay);
  const absl::Status listening = impl->Listen(*listen_address, listen);
  if (!listening.ok()) return listening;
  return std::unique_ptr<DelayRelay>(new DelayRelay(std::move(impl)));
}

DelayRelay::DelayRelay(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DelayRelay::~DelayRelay() = default;
int DelayRelay::port() const { return impl_->port(); }
void DelayRelay::SetDelay(absl::Duration delay) { impl_->SetDelay(delay); }
int DelayRelay::Cut() { return impl_->Cut(); }
void DelayRelay::SetStalled(bool stalled) { impl_->SetStalled(stalled); }

}  // namespace warpline
