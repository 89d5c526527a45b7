#include "client_stub/session/memory/host_memory_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log/log.h"
#include "common/packets/packet_socket.h"
#include "transport/unix_connect.h"

namespace warpline::stub {
namespace {

using warpline_internal::HostMemoryAnswer;
using warpline_internal::HostMemoryRequest;

// This is longer than another worker takes to take over.
constexpr absl::Duration kPatience = absl::Seconds(90);
// A connection waits for a server that accepts none.
constexpr timeval kConnectTimeout = {.tv_sec = 5, .tv_usec = 0};

// Waits until something comes, and returns false after kPatience.
bool AwaitPacket(int socket) {
  const absl::Time end = absl::Now() + kPatience;
  while (true) {
    pollfd entry = {.fd = socket, .events = POLLIN, .revents = 0};
    const absl::Duration left = end - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    const timespec timeout = absl::ToTimespec(left);
    if (ppoll(&entry, 1, &timeout, nullptr) > 0) return true;
  }
}

}  // namespace

void HostMemoryLink::Open(Place place) {
  MutexLock lock(&mu_);
  place_.emplace(std::move(place));
}

void HostMemoryLink::BeginAsking() {
  while (asking_) changed_.Wait(&mu_);
  asking_ = true;
}

void HostMemoryLink::EndAsking() {
  asking_ = false;
  changed_.NotifyAll();
}

absl::Status HostMemoryLink::Connect() {
  if (socket_.valid()) return absl::OkStatus();
  const std::string& name = place_->name;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof(address.sun_path)) {
    return absl::PermissionDeniedError("the server has no socket for host memory");
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return absl::UnavailableError("no descriptor is left for a socket");
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kConnectTimeout, sizeof(kConnectTimeout));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    return absl::UnavailableError(
        absl::StrCat("the server's socket for host memory: ", std::strerror(errno)));
  }
  const auto listener = ListenerOf(socket.get());
  const absl::Status is_server = listener.ok()
                                     ? place_->server.Check("the socket for host memory", *listener)
                                     : listener.status();
  if (!is_server.ok()) {
    LogWarning("no host memory is shared with the server: ", is_server.message());
    return absl::PermissionDeniedError(is_server.message());
  }
  fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  socket_ = std::move(socket);
  connected_ = true;
  return absl::OkStatus();
}

CudaResult HostMemoryLink::Request(HostSharing what, uint64_t va, uint64_t bytes, UniqueFd* fd,
                                   std::string* why) {
  HostMemoryRequest request;
  request.set_va(va);
  request.set_bytes(bytes);
  request.set_give_back(what == HostSharing::kGiveBack);
  request.set_outlives(what == HostSharing::kTakeForProgram);
  request.set_staging(what == HostSharing::kTakeForStaging);
  return Ask(std::move(request), fd, why);
}

UniqueFd HostMemoryLink::RequestBoard() {
  HostMemoryRequest request;
  request.set_board(true);
  UniqueFd fd;
  std::string why;
  return Ask(std::move(request), &fd, &why) == CudaResult::kSuccess ? std::move(fd) : UniqueFd();
}

absl::Status HostMemoryLink::Exchange(int socket, const HostMemoryRequest& request,
                                      const std::vector<int>& fds, HostMemoryAnswer* answer,
                                      UniqueFd* fd) {
  if (const absl::Status sent = SendPacket(socket, request, fds); !sent.ok()) return sent;
  while (true) {
    std::vector<UniqueFd> received;
    const absl::Status got = ReceivePacket(socket, answer, &received);
    if (absl::IsNotFound(got)) {
      if (!AwaitPacket(socket)) return absl::DeadlineExceededError("the server does not answer");
      continue;
    }
    if (!got.ok()) return got;
    MutexLock lock(&mu_);
    if (answer->kept_size() > 0) {
      Keep(*answer, std::move(received));
      continue;
    }
    if (received.size() == 1) *fd = std::move(received.front());
    return absl::OkStatus();
  }
}

void HostMemoryLink::Keep(const HostMemoryAnswer& answer, std::vector<UniqueFd> fds) {
  if (fds.size() != static_cast<size_t>(answer.kept_size())) return;
  for (int i = 0; i < answer.kept_size(); ++i) {
    const auto& segment = answer.kept(i);
    kept_[segment.va()] = {segment.bytes(), segment.outlives(),
                           std::move(fds[static_cast<size_t>(i)])};
  }
}

void HostMemoryLink::Drain() {
  bool failed = false;
  while (socket_.valid()) {
    HostMemoryAnswer answer;
    std::vector<UniqueFd> fds;
    const absl::Status got = ReceivePacket(socket_.get(), &answer, &fds);
    if (absl::IsNotFound(got)) return;
    if (got.ok()) {
      Keep(answer, std::move(fds));
    } else if (std::exchange(failed, true)) {
      // The first failure may be that of something sent, in front of what has come.
      socket_ = UniqueFd();
    }
  }
}

bool HostMemoryLink::AwaitAnother() {
  EndAsking();
  while (!socket_.valid() && !lost_) changed_.Wait(&mu_);
  BeginAsking();
  return !lost_;
}

CudaResult HostMemoryLink::Ask(HostMemoryRequest request, UniqueFd* fd, std::string* why) {
  MutexLock lock(&mu_);
  if (!place_.has_value()) return CudaResult::kNotSupported;
  request.set_session(place_->session);
  request.set_secret(place_->secret);
  BeginAsking();
  HostMemoryAnswer answer;
  absl::Status status;
  for (int failures = 0; !broken_; ++failures) {
    status = Connect();
    if (status.ok()) {
      const int socket = socket_.get();
      mu_.Unlock();
      status = Exchange(socket, request, {}, &answer, fd);
      mu_.Lock();
    }
    if (status.ok()) break;
    broken_ = !connected_ || !absl::IsUnavailable(status);
    if (broken_) break;
    Drain();
    // A server that is still there may have closed the connection alone.
    const bool may_be_there = failures == 0 && kept_.empty();
    if (may_be_there) continue;
    socket_ = UniqueFd();
    if (!AwaitAnother()) break;
  }
  EndAsking();
  // A broken connection stays, for memory that outlives the session lives as long as that.
  if (broken_ || !status.ok()) return CudaResult::kNotSupported;
  // A server that answers goes on with the session itself.
  kept_.clear();
  *why = answer.message();
  return static_cast<CudaResult>(answer.error());
}

absl::Status HostMemoryLink::HandOverKept() {
  auto next = kept_.begin();
  while (next != kept_.end()) {
    HostMemoryRequest request;
    request.set_session(place_->session);
    request.set_secret(place_->secret);
    std::vector<int> fds;
    for (; next != kept_.end() && fds.size() < kMaxPacketFds; ++next) {
      auto* const segment = request.add_kept();
      segment->set_va(next->first);
      segment->set_bytes(next->second.bytes);
      segment->set_outlives(next->second.outlives);
      fds.push_back(next->second.fd.get());
    }
    const int socket = socket_.get();
    HostMemoryAnswer answer;
    UniqueFd none;
    mu_.Unlock();
    const absl::Status asked = Exchange(socket, request, fds, &answer, &none);
    mu_.Lock();
    if (!asked.ok()) return asked;
    if (answer.error() != 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the server does not take back the host memory that it shares: ",
          answer.message().empty() ? CudaResultName(static_cast<CudaResult>(answer.error()))
                                   : answer.message()));
    }
  }
  kept_.clear();
  return absl::OkStatus();
}

absl::Status HostMemoryLink::HandOver() {
  MutexLock lock(&mu_);
  // A request under way sees the end of the connection by itself.
  if (!connected_ || broken_ || asking_) return absl::OkStatus();
  BeginAsking();
  Drain();
  absl::Status status;
  if (!socket_.valid()) {
    status = Connect();
    if (kept_.empty()) {
      status = absl::OkStatus();
    } else if (status.ok()) {
      status = HandOverKept();
      if (!status.ok()) socket_ = UniqueFd();
    }
  }
  EndAsking();
  return status;
}

void HostMemoryLink::Lose() {
  MutexLock lock(&mu_);
  lost_ = true;
  changed_.NotifyAll();
}

}  // namespace warpline::stub
