#include "tools/cli/keep.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/lease/lease_key.h"
#include "common/unique_fd.h"
#include "proto/leases.pb.h"
#include "tools/cli/child.h"
#include "tools/cli/renewer.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

// What the process behind gets as its descriptors: the socket, the grant, and the end of a pipe
// into which it writes a byte once it has taken over.
constexpr int kListener = 3;
constexpr int kGrant = 4;
constexpr int kReady = 5;
constexpr int kFirstOther = 6;
constexpr size_t kMaxGrantBytes = 64 << 10;
// How often it looks whether the processes still run.
constexpr absl::Duration kLookEvery = absl::Seconds(1);

absl::Status Failed(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// A copy that is none of the numbers that the other process gets.
UniqueFd Aside(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, kFirstOther)); }

// The reply with the lease's latest token, in memory: a command line would show it to everybody.
absl::StatusOr<UniqueFd> GrantWith(const Lease& lease, const std::string& token) {
  warpline_internal::LeaseReply reply = lease.granted();
  reply.set_token(token);
  const std::string bytes = reply.SerializeAsString();
  UniqueFd fd(memfd_create("warpline-lease", MFD_CLOEXEC));
  if (!fd.valid() ||
      write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
      lseek(fd.get(), 0, SEEK_SET) != 0) {
    return Failed("cannot pass the lease on");
  }
  return fd;
}

absl::StatusOr<warpline_internal::LeaseReply> ReadGrant() {
  std::string bytes(kMaxGrantBytes, '\0');
  const ssize_t got = read(kGrant, bytes.data(), bytes.size());
  warpline_internal::LeaseReply reply;
  if (got <= 0 || !reply.ParseFromArray(bytes.data(), static_cast<int>(got)) ||
      reply.token().empty()) {
    return absl::FailedPreconditionError(
        "`warpline run` starts this by itself when its command leaves processes running");
  }
  return reply;
}

// Gives the new process `from` as the descriptors above, and /dev/null as the standard ones.
// Returns 0, or the number of the error.
int AddFiles(const std::array<UniqueFd, 3>& from, posix_spawn_file_actions_t* files) {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const int error = posix_spawn_file_actions_addopen(files, standard, "/dev/null", O_RDWR, 0);
    if (error != 0) return error;
  }
  for (size_t i = 0; i < from.size(); ++i) {
    const int error =
        posix_spawn_file_actions_adddup2(files, from[i].get(), kListener + static_cast<int>(i));
    if (error != 0) return error;
  }
  return posix_spawn_file_actions_addclosefrom_np(files, kFirstOther);
}

// Starts this program anew, in a session of its own and without the terminal.
absl::StatusOr<pid_t> Start(const std::vector<std::string>& words, const UniqueFd& listener,
                            const UniqueFd& grant, const UniqueFd& ready) {
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return absl::UnavailableError(absl::StrCat("/proc/self/exe: ", error.message()));
  const std::array<UniqueFd, 3> from = {Aside(listener.valid() ? listener.get() : grant.get()),
                                        Aside(grant.get()), Aside(ready.get())};
  for (const UniqueFd& fd : from) {
    if (!fd.valid()) return Failed("cannot pass the lease on");
  }
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t child = 0;
  int failed = AddFiles(from, &files);
  if (failed == 0) {
    failed = posix_spawn(&child, self.c_str(), &files, &attributes, argv.data(), environ);
  }
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (failed == 0) return child;
  return absl::UnavailableError(absl::StrCat("cannot start ", self, ": ", std::strerror(failed)));
}

// Whether a byte came before the pipe's end.
bool IsReady(const UniqueFd& pipe) {
  char byte;
  ssize_t got;
  do {
    got = read(pipe.get(), &byte, 1);
  } while (got < 0 && errno == EINTR);
  return got == 1;
}

// Leaves the command's folder, so that it can be removed and unmounted; not when the endpoint is a
// path in it.
void LeaveFolder(const std::string& endpoint) {
  for (const absl::string_view address : absl::StrSplit(endpoint, ',')) {
    if (absl::StartsWith(address, "unix:") && !absl::StartsWith(address, "unix:/")) return;
  }
  (void)!chdir("/");
}

bool IsSocket(int fd) {
  struct stat about = {};
  return fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode);
}

}  // namespace

absl::StatusOr<pid_t> StartKeeping(const Lease& lease, const std::string& endpoint,
                                   const std::string& token, const ProcessFamily& family,
                                   TokenKeeper* keeper) {
  auto grant = GrantWith(lease, token);
  if (!grant.ok()) return grant.status();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Failed("cannot make a pipe");
  const UniqueFd theirs(ends[0]);
  UniqueFd ours(ends[1]);
  std::vector<std::string> words = {"warpline", "keep-lease", "--endpoint=" + endpoint};
  for (std::string& word : family.Text()) words.push_back(std::move(word));
  const auto child = Start(words, keeper->listener(), *grant, ours);
  if (!child.ok()) return child;
  ours.Reset(-1);
  if (!IsReady(theirs)) {
    return absl::UnavailableError("`warpline keep-lease` ended before it took over");
  }
  keeper->LeaveFile();
  return child;
}

int KeepLease(const CommandLine& line, const std::string& endpoint) {
  const auto complain = [](const absl::Status& status) {
    return Complain("warpline keep-lease", status.message(), 1);
  };
  auto family = ProcessFamily::Parse(line.rest);
  if (!family.ok()) return complain(family.status());
  const auto grant = ReadGrant();
  if (!grant.ok()) return complain(grant.status());
  BlockForwardedSignals();
  const std::unique_ptr<Lease> lease = Lease::Resume(endpoint, *grant);
  UniqueFd listener(kListener);
  if (!IsSocket(kListener)) listener.Reset(-1);
  const char* const key = getenv(kLeaseKeyVariable);
  const char* const path = getenv("WARPLINE_TOKEN_FILE");
  const auto keeper = TokenKeeper::Adopt(std::move(listener), key == nullptr ? "" : key,
                                         path == nullptr ? "" : path, grant->token());
  if (!keeper.ok()) return complain(keeper.status());
  LeaveFolder(endpoint);
  // A renewal may take its time, during which `warpline run` would hear no signal.
  UniqueFd ready(kReady);
  (void)!write(ready.get(), "", 1);
  ready.Reset(-1);
  Renewer renewer(lease.get(), keeper->get(), grant->token(), Renewer::First::kAtOnce);
  while (!renewer.lost() && family->Look() && WaitForEndSignal(kLookEvery) == 0) {
  }
  renewer.Release();
  return 0;
}

}  // namespace warpline::cli
