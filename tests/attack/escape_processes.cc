// Attempts on other processes: memory, descriptors, signals, scheduling; and on starting new ones.
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"
#include "tests/attack/escape.h"

namespace warpline::attack {
namespace {

using jail::Layer;
using jail::LayerSet;

constexpr LayerSet kCalls = Layer::kSystemCalls;
// What keeps processes apart that the kernel compares the users of.
constexpr LayerSet kUsers = LayerSet(Layer::kIdentity) | Layer::kCapabilities;
// The same for what ptrace(2) may do, to which Landlock has a word to say.
constexpr LayerSet kTracing = kUsers | Layer::kFiles;

std::string Proc(pid_t pid, const char* file) { return absl::StrCat("/proc/", pid, "/", file); }

Result Open(const std::string& path, int flags) {
  const UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC));
  return Judge(fd.valid());
}

// Reads a file of a process as far as its first byte.
Result Read(pid_t pid, const char* file) {
  const UniqueFd fd(open(Proc(pid, file).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return Judge(false);
  char byte = 0;
  return Judge(read(fd.get(), &byte, 1) == 1);
}

// Where the first mapping of a process lies; of no use unless its maps can be read.
uint64_t FirstMapping(pid_t pid) {
  FILE* const maps = fopen(Proc(pid, "maps").c_str(), "re");
  if (maps == nullptr) return 0;
  unsigned long long start = 0;
  const bool found = fscanf(maps, "%llx", &start) == 1;
  fclose(maps);
  return found ? start : 0;
}

Result Memory(pid_t pid, bool write) {
  const UniqueFd fd(open(Proc(pid, "mem").c_str(), (write ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  if (!fd.valid()) return Judge(false);
  const auto at = static_cast<off_t>(FirstMapping(pid));
  char byte = 0;
  if (pread(fd.get(), &byte, 1, at) != 1) return Judge(false);
  return Judge(!write || pwrite(fd.get(), &byte, 1, at) == 1);
}

Result ReadServerMemory(const Targets& t) { return Memory(t.server, false); }
Result WriteServerMemory(const Targets& t) { return Memory(t.server, true); }
Result WriteSupervisorMemory(const Targets& t) { return Memory(t.supervisor, true); }
Result ReadKeeperMemory(const Targets& t) { return Memory(t.keeper, false); }
Result WriteKeeperMemory(const Targets& t) { return Memory(t.keeper, true); }
Result ReadNeighbourMemory(const Targets& t) { return Memory(t.neighbour, false); }
Result WriteNeighbourMemory(const Targets& t) { return Memory(t.neighbour, true); }
Result ReadServerEnvironment(const Targets& t) { return Read(t.server, "environ"); }
Result ReadServerMaps(const Targets& t) { return Read(t.server, "maps"); }
Result ReadNeighbourMaps(const Targets& t) { return Read(t.neighbour, "maps"); }
Result ReadServerCommandLine(const Targets& t) { return Read(t.server, "cmdline"); }
Result ReadNeighbourSyscall(const Targets& t) { return Read(t.neighbour, "syscall"); }
Result OpenServerDescriptor(const Targets& t) { return Open(Proc(t.server, "fd/2"), O_RDONLY); }
Result OpenKeeperDescriptor(const Targets& t) { return Open(Proc(t.keeper, "fd/2"), O_RDONLY); }
Result OpenNeighbourDescriptor(const Targets& t) {
  return Open(Proc(t.neighbour, "fd/0"), O_RDONLY);
}
Result OpenServerRoot(const Targets& t) { return Open(Proc(t.server, "root"), O_RDONLY); }
Result SpareServerFromOom(const Targets& t) {
  return Open(Proc(t.server, "oom_score_adj"), O_WRONLY);
}

Result Trace(pid_t pid) {
  if (ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) return Judge(false);
  ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
  return Judge(true);
}
Result TraceServer(const Targets& t) { return Trace(t.server); }
Result TraceNeighbour(const Targets& t) { return Trace(t.neighbour); }

Result CopyMemory(pid_t pid, long call) {
  char bytes[8] = {};
  iovec own = {bytes, sizeof(bytes)};
  // Nothing is mapped there: who is not stopped gets EFAULT.
  iovec other = {reinterpret_cast<void*>(8), sizeof(bytes)};
  return JudgeReached(syscall(call, pid, &own, 1, &other, 1, 0));
}
Result CopyFromServer(const Targets& t) { return CopyMemory(t.server, SYS_process_vm_readv); }
Result CopyToServer(const Targets& t) { return CopyMemory(t.server, SYS_process_vm_writev); }

Result WithPidfd(pid_t pid, long (*use)(int pidfd)) {
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  return pidfd.valid() ? Judge(use(pidfd.get()) >= 0) : Judge(false);
}
Result TakeServerDescriptor(const Targets& t) {
  return WithPidfd(t.server, [](int fd) { return syscall(SYS_pidfd_getfd, fd, 2, 0); });
}
Result SignalByPidfd(const Targets& t) {
  return WithPidfd(t.server,
                   [](int fd) { return syscall(SYS_pidfd_send_signal, fd, 0, nullptr, 0); });
}
Result AdviseServerMemory(const Targets& t) {
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, t.server, 0)));
  if (!pidfd.valid()) return Judge(false);
  iovec nothing = {reinterpret_cast<void*>(4096), 0};
  return JudgeReached(syscall(SYS_process_madvise, pidfd.get(), &nothing, 1, MADV_COLD, 0));
}

Result SignalServer(const Targets& t) { return Judge(kill(t.server, 0) == 0); }
Result SignalNeighbour(const Targets& t) { return Judge(kill(t.neighbour, 0) == 0); }
Result SignalServerThread(const Targets& t) {
  return Judge(syscall(SYS_tgkill, t.server, t.server, 0) == 0);
}
Result QueueSignal(const Targets& t) {
  siginfo_t info = {};
  info.si_code = SI_QUEUE;
  return Judge(syscall(SYS_rt_sigqueueinfo, t.server, 0, &info) == 0);
}

Result RenicePriority(const Targets& t) {
  return Judge(setpriority(PRIO_PROCESS, static_cast<id_t>(t.server),
                           getpriority(PRIO_PROCESS, static_cast<id_t>(t.server))) == 0);
}
Result PinServer(const Targets& t) {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int i = 0; i < CPU_SETSIZE; ++i) CPU_SET(i, &all);
  return Judge(sched_setaffinity(t.server, sizeof(all), &all) == 0);
}
Result LimitServer(const Targets& t) {
  rlimit now = {};
  if (prlimit(t.server, RLIMIT_NOFILE, nullptr, &now) != 0) return Judge(false);
  return Judge(prlimit(t.server, RLIMIT_NOFILE, &now, nullptr) == 0);
}
Result DelayServerDisk(const Targets& t) {
  constexpr int kProcess = 1, kBestEffort = 2 << 13 | 4;
  return Judge(syscall(SYS_ioprio_set, kProcess, t.server, kBestEffort) == 0);
}
Result CompareDescriptors(const Targets& t) {
  return Judge(syscall(SYS_kcmp, getpid(), t.server, KCMP_FILES, 0, 0) >= 0);
}
Result MigrateServer(const Targets& t) {
  const unsigned long nodes = 1;
  return JudgeReached(syscall(SYS_migrate_pages, t.server, 8, &nodes, &nodes));
}
Result ReadRobustList(const Targets& t) {
  void* head = nullptr;
  size_t size = 0;
  return Judge(syscall(SYS_get_robust_list, t.server, &head, &size) == 0);
}

// The child ends at once.
Result Wait(pid_t child) {
  const Result result = Judge(child > 0);
  if (child > 0) waitpid(child, nullptr, 0);
  return result;
}
Result Fork(const Targets&) {
  const pid_t child = static_cast<pid_t>(syscall(SYS_fork));
  if (child == 0) _exit(0);
  return Wait(child);
}
Result Clone(const Targets&) {
  const pid_t child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
  if (child == 0) _exit(0);
  return Wait(child);
}
// Executes in a child; where there cannot be one, instead of this process, whose end is then
// noticed.
Result Execute(int folder, const char* path, int flags) {
  char* const argv[] = {const_cast<char*>("true"), nullptr};
  const pid_t child = static_cast<pid_t>(syscall(SYS_fork));
  if (child <= 0) {
    syscall(SYS_execveat, folder, path, argv, argv + 1, flags);
    if (child == 0) _exit(errno);
    return Judge(false);
  }
  int status = 0;
  waitpid(child, &status, 0);
  errno = WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
  return Judge(errno == 0);
}
Result ExecuteFile(const Targets&) { return Execute(AT_FDCWD, "/bin/true", 0); }
Result ExecuteMemory(const Targets&) {
  const UniqueFd program(memfd_create("program", 0));
  const UniqueFd file(open("/bin/true", O_RDONLY | O_CLOEXEC));
  if (!program.valid() || !file.valid()) return Judge(false);
  char bytes[4096];
  for (ssize_t n; (n = read(file.get(), bytes, sizeof(bytes))) > 0;) {
    if (write(program.get(), bytes, static_cast<size_t>(n)) != n) return Judge(false);
  }
  return Execute(program.get(), "", AT_EMPTY_PATH);
}
Result OutliveServer(const Targets&) { return Judge(prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0) == 0); }
Result BecomeDumpable(const Targets&) { return Judge(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0); }
Result BeTraced(const Targets&) { return Judge(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0); }

constexpr Attempt kAttempts[] = {
    {"read_server_memory", kTracing, &ReadServerMemory},
    {"write_server_memory", kTracing, &WriteServerMemory},
    {"write_supervisor_memory", kTracing, &WriteSupervisorMemory},
    {"read_keeper_memory", kTracing, &ReadKeeperMemory},
    {"write_keeper_memory", kTracing, &WriteKeeperMemory},
    {"read_neighbour_memory", kTracing, &ReadNeighbourMemory},
    {"write_neighbour_memory", kTracing, &WriteNeighbourMemory},
    {"read_server_environment", kTracing, &ReadServerEnvironment},
    {"read_server_maps", kTracing, &ReadServerMaps},
    {"read_neighbour_maps", kTracing, &ReadNeighbourMaps},
    {"read_server_command_line", Layer::kFiles, &ReadServerCommandLine},
    {"read_neighbour_registers", kTracing, &ReadNeighbourSyscall},
    {"open_server_descriptor", kTracing, &OpenServerDescriptor},
    {"open_keeper_descriptor", kTracing, &OpenKeeperDescriptor},
    {"open_neighbour_descriptor", kTracing, &OpenNeighbourDescriptor},
    {"open_server_root", kTracing, &OpenServerRoot},
    {"write_server_oom_score", kTracing, &SpareServerFromOom},
    {"trace_server", kTracing | kCalls, &TraceServer},
    {"trace_neighbour", kTracing | kCalls, &TraceNeighbour},
    {"copy_from_server", kTracing | kCalls, &CopyFromServer},
    {"copy_to_server", kTracing | kCalls, &CopyToServer},
    {"take_server_descriptor", kTracing | kCalls, &TakeServerDescriptor},
    {"advise_server_memory", kTracing | kCalls, &AdviseServerMemory},
    {"signal_server", kTracing | kCalls, &SignalServer},
    {"signal_neighbour", kTracing | kCalls, &SignalNeighbour},
    {"signal_server_thread", kTracing | kCalls, &SignalServerThread},
    {"signal_server_by_pidfd", kTracing | kCalls, &SignalByPidfd},
    {"queue_signal_to_server", kTracing | kCalls, &QueueSignal},
    {"set_priority_of_server", kUsers | kCalls, &RenicePriority},
    {"set_affinity_of_server", kUsers | kCalls, &PinServer},
    {"set_limits_of_server", kUsers | kCalls, &LimitServer},
    {"set_io_priority_of_server", kUsers | kCalls, &DelayServerDisk},
    {"compare_descriptors_with_server", kTracing | kCalls, &CompareDescriptors},
    {"migrate_memory_of_server", kTracing | kCalls, &MigrateServer},
    {"read_robust_list_of_server", kTracing | kCalls, &ReadRobustList},
    {"fork", kCalls, &Fork},
    {"clone_a_process", kCalls, &Clone},
    {"execute_a_file", kCalls | Layer::kFiles, &ExecuteFile},
    {"execute_memory", kCalls | Layer::kFiles, &ExecuteMemory},
    {"outlive_the_server", kCalls, &OutliveServer},
    {"become_dumpable", kCalls, &BecomeDumpable},
    {"ask_to_be_traced", kCalls, &BeTraced},
};

}  // namespace

absl::Span<const Attempt> ProcessAttempts() { return kAttempts; }

}  // namespace warpline::attack
