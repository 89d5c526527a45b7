#include "scheduler/etcd/testing/local_etcd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace warpline::scheduler {
namespace {

constexpr char kProgram[] = "/usr/bin/etcd";

// A port that nobody has, but that somebody may take before etcd does; then Start() tries others.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

pid_t Spawn(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_WRONLY, 0);
  }
  pid_t pid = -1;
  if (posix_spawn(&pid, kProgram, &actions, nullptr, argv.data(), environ) != 0) pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

// Waits until it answers. False when it has ended, such as for want of a port; `*pid` is -1 then.
bool Answers(EtcdClientOptions options, pid_t* pid) {
  options.deadline = absl::Seconds(1);
  EtcdClient client(options);
  warpline_etcd::RangeRequest request;
  request.set_key("x");
  while (!client.Range(request).ok()) {
    if (waitpid(*pid, nullptr, WNOHANG) == *pid) {
      *pid = -1;
      return false;
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
  return true;
}

}  // namespace

std::unique_ptr<LocalEtcd> LocalEtcd::Start(const TlsFiles& tls, const std::string& cert,
                                            const std::string& key) {
  if (access(kProgram, X_OK) != 0) return nullptr;
  for (int attempt = 0; attempt < 3; ++attempt) {
    auto etcd = std::unique_ptr<LocalEtcd>(new LocalEtcd());
    etcd->address_ = absl::StrCat("127.0.0.1:", FreePort());
    if (!tls.empty()) {
      etcd->tls_ = std::make_shared<TlsSource>(TlsSource::Side::kClient, tls);
    }
    const std::string client = absl::StrCat(tls.empty() ? "http://" : "https://", etcd->address_);
    const std::string peer = absl::StrCat("http://127.0.0.1:", FreePort());
    std::vector<std::string> arguments = {kProgram,
                                          "--data-dir=" + etcd->folder_.path() + "/etcd",
                                          "--listen-client-urls=" + client,
                                          "--advertise-client-urls=" + client,
                                          "--listen-peer-urls=" + peer,
                                          "--initial-advertise-peer-urls=" + peer,
                                          "--initial-cluster=default=" + peer};
    if (!tls.empty()) {
      for (const std::string& flag :
           {"--cert-file=" + cert, "--key-file=" + key, "--trusted-ca-file=" + tls.ca,
            std::string("--client-cert-auth")}) {
        arguments.push_back(flag);
      }
    }
    etcd->pid_ = Spawn(arguments);
    if (etcd->pid_ < 0) return nullptr;
    if (Answers(etcd->options(), &etcd->pid_)) return etcd;
  }
  return nullptr;
}

LocalEtcd::~LocalEtcd() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

EtcdClientOptions LocalEtcd::options() const {
  EtcdClientOptions options;
  options.attempt = absl::Seconds(30);
  options.deadline = absl::Seconds(60);
  options.members.push_back({.address = address_, .tls = tls_});
  return options;
}

// A signal is delivered some time later; until then etcd answers.
void LocalEtcd::Pause() {
  kill(pid_, SIGSTOP);
  int status = 0;
  while (waitpid(pid_, &status, WUNTRACED) < 0 && errno == EINTR) {
  }
}
void LocalEtcd::Continue() { kill(pid_, SIGCONT); }

absl::StatusOr<EtcdGuard> TakeLead(EtcdClient* client, const std::string& key) {
  warpline_etcd::TxnRequest remove;
  remove.add_success()->mutable_request_delete_range()->set_key(key);
  if (auto removed = client->Commit(remove); !removed.ok()) return removed.status();
  warpline_etcd::TxnRequest make;
  make.add_success()->mutable_request_put()->set_key(key);
  const auto made = client->Commit(make);
  if (!made.ok()) return made.status();
  return EtcdGuard{key, made->header().revision()};
}

}  // namespace warpline::scheduler
