#include "tools/cli/token_keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::cli {
namespace {

constexpr int kBacklog = 256;
// The pause before another connection is taken where there are no descriptors left.
constexpr int kPauseMs = 50;

// Never one of the standard descriptors, which may be closed.
UniqueFd AboveStandard(UniqueFd fd) {
  if (!fd.valid() || fd.get() > STDERR_FILENO) return fd;
  return UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

// Invalid when it cannot listen; errno says why.
UniqueFd ListenAt(const sockaddr_un& address) {
  UniqueFd fd =
      AboveStandard(UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
  if (!fd.valid() ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return UniqueFd();
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenKeeper>> TokenKeeper::Create(const std::string& endpoint,
                                                                 const std::string& token) {
  auto file = TokenFile::Create(token);
  LeaseKey key = LeaseKey::New(endpoint, file.ok() ? (*file)->path() : "");
  UniqueFd listener = ListenAt(key.address());
  const int error = errno;
  if (!listener.valid() && !file.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot listen at a unix socket (",
                                               std::strerror(error), "), and ",
                                               file.status().message()));
  }
  return std::unique_ptr<TokenKeeper>(
      new TokenKeeper(std::move(key), std::move(listener),
                      file.ok() ? *std::move(file) : std::unique_ptr<TokenFile>(), token));
}

absl::StatusOr<std::unique_ptr<TokenKeeper>> TokenKeeper::Adopt(UniqueFd listener,
                                                                const std::string& key_text,
                                                                const std::string& path,
                                                                const std::string& token) {
  auto key = LeaseKey::Parse(key_text);
  if (!key.ok()) return key.status();
  return std::unique_ptr<TokenKeeper>(
      new TokenKeeper(*std::move(key), std::move(listener),
                      path.empty() ? std::unique_ptr<TokenFile>() : TokenFile::Adopt(path), token));
}

TokenKeeper::TokenKeeper(LeaseKey key, UniqueFd listener, std::unique_ptr<TokenFile> file,
                         const std::string& token)
    : key_(std::move(key)),
      listener_(std::move(listener)),
      stop_(AboveStandard(UniqueFd(eventfd(0, EFD_CLOEXEC)))),
      token_(token),
      file_(std::move(file)) {
  if (listener_.valid() && stop_.valid()) thread_ = std::thread([this] { Serve(); });
}

TokenKeeper::~TokenKeeper() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void TokenKeeper::Export() const {
  setenv(kLeaseKeyVariable, key_.text().c_str(), 1);
  MutexLock lock(&mu_);
  if (file_ != nullptr) {
    setenv("WARPLINE_TOKEN_FILE", file_->path().c_str(), 1);
  } else {
    unsetenv("WARPLINE_TOKEN_FILE");
  }
}

absl::Status TokenKeeper::Replace(const std::string& token) {
  MutexLock lock(&mu_);
  token_ = token;
  if (file_ == nullptr) return absl::OkStatus();
  const absl::Status status = file_->Replace(token);
  if (status.ok()) return status;
  file_.reset();
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(),
                   listener_.valid()
                       ? ": programs get the lease's token by WARPLINE_LEASE_KEY"
                       : ": programs that start from now on find no token of the lease"));
}

void TokenKeeper::LeaveFile() {
  MutexLock lock(&mu_);
  if (file_ != nullptr) file_->Leave();
}

void TokenKeeper::Serve() {
  pollfd waits[] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  while (true) {
    if (poll(waits, 2, -1) < 0 && errno != EINTR) return;
    if (waits[1].revents != 0) return;
    const UniqueFd peer = AboveStandard(
        UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
    if (!peer.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) poll(&waits[1], 1, kPauseMs);
      continue;
    }
    std::string token;
    {
      MutexLock lock(&mu_);
      token = token_;
    }
    const auto sealed = key_.Seal(token);
    // It fits into the buffer of a new socket, so nobody who connects makes this wait.
    if (sealed.ok()) (void)send(peer.get(), sealed->data(), sealed->size(), MSG_NOSIGNAL);
  }
}

}  // namespace warpline::cli
