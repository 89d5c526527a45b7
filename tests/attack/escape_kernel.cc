// Attempts on the kernel's own interfaces: namespaces, mounts, keyrings, rings, programs, modules.
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"
#include "tests/attack/escape.h"

namespace warpline::attack {
namespace {

using jail::Layer;
using jail::LayerSet;

constexpr LayerSet kCalls = Layer::kSystemCalls;
// What it takes privileges for.
constexpr LayerSet kPrivileged = kCalls | Layer::kCapabilities | Layer::kIdentity;

Result FromDescriptor(long fd) {
  const Result result = Judge(fd >= 0);
  if (fd >= 0) close(static_cast<int>(fd));
  return result;
}

Result CloneUserNamespace(const Targets&) {
  const long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, 0);
  if (child == 0) _exit(0);
  const Result result = Judge(child > 0);
  if (child > 0) waitpid(static_cast<pid_t>(child), nullptr, 0);
  return result;
}
Result UnshareMounts(const Targets&) { return Judge(unshare(CLONE_NEWNS) == 0); }
Result UnshareNetwork(const Targets&) { return Judge(unshare(CLONE_NEWNET) == 0); }
Result EnterNetworkOfServer(const Targets& t) {
  const UniqueFd ns(
      open(absl::StrCat("/proc/", t.server, "/ns/net").c_str(), O_RDONLY | O_CLOEXEC));
  return ns.valid() ? Judge(setns(ns.get(), CLONE_NEWNET) == 0) : Judge(false);
}
Result Mount(const Targets& t) {
  if (mount("none", t.public_folder.c_str(), "tmpfs", 0, nullptr) != 0) return Judge(false);
  umount2(t.public_folder.c_str(), MNT_DETACH);
  return Judge(true);
}
Result MakeRootWritable(const Targets&) {
  return JudgeReached(mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND, nullptr));
}
Result ChangeRoot(const Targets&) { return Judge(chroot("/") == 0); }
Result PivotRoot(const Targets& t) {
  // The same folder twice, which the kernel does not take.
  return JudgeReached(syscall(SYS_pivot_root, t.public_folder.c_str(), t.public_folder.c_str()));
}
Result SetHostName(const Targets&) {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return Judge(false);
  return Judge(sethostname(name, strlen(name)) == 0);
}

Result MakeIoUring(const Targets&) {
  char parameters[120] = {};
  return FromDescriptor(syscall(SYS_io_uring_setup, 1, parameters));
}
Result MakeUserFaults(const Targets&) {
  return FromDescriptor(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
}
Result MakeKernelMap(const Targets&) {
  bpf_attr attributes = {};
  attributes.map_type = BPF_MAP_TYPE_ARRAY;
  attributes.key_size = attributes.value_size = 4;
  attributes.max_entries = 1;
  return FromDescriptor(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof(attributes)));
}
Result CountEvents(const Targets& t) {
  perf_event_attr attributes = {};
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_TASK_CLOCK;
  attributes.size = sizeof(attributes);
  return FromDescriptor(syscall(SYS_perf_event_open, &attributes, t.server, -1, -1, 0));
}
Result AddKey(const Targets&) {
  return Judge(syscall(SYS_add_key, "user", "warpline-attack", "x", 1, KEY_SPEC_PROCESS_KEYRING) >=
               0);
}
Result ReadSessionKeyring(const Targets&) {
  return Judge(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1) >= 0);
}
Result LoadModule(const Targets&) {
  return JudgeReached(syscall(SYS_init_module, "no module", 9, ""));
}
Result LoadKernel(const Targets&) { return JudgeReached(syscall(SYS_kexec_load, 0, 99, 0, 0)); }
Result Reboot(const Targets&) {
  // The first of the magic numbers is wrong.
  return JudgeReached(syscall(SYS_reboot, 1, 2, 3, nullptr));
}
Result Swap(const Targets&) { return JudgeReached(swapon("/nothing/there", 0)); }
Result ReadKernelLog(const Targets&) {
  char text[64];
  constexpr int kReadAll = 3;
  return Judge(klogctl(kReadAll, text, sizeof(text)) >= 0);
}
Result WatchFileSystem(const Targets&) {
  return FromDescriptor(fanotify_init(FAN_CLOEXEC | FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY));
}
Result ChangePersonality(const Targets&) {
  constexpr unsigned long kAsk = 0xffffffff;
  return Judge(personality(kAsk) >= 0);
}
Result RunInRealTime(const Targets&) {
  sched_param parameters = {};
  parameters.sched_priority = 1;
  if (sched_setscheduler(0, SCHED_FIFO, &parameters) != 0) return Judge(false);
  parameters.sched_priority = 0;
  sched_setscheduler(0, SCHED_OTHER, &parameters);
  return Judge(true);
}
Result RaisePriority(const Targets&) {
  if (setpriority(PRIO_PROCESS, 0, -1) != 0) return Judge(false);
  setpriority(PRIO_PROCESS, 0, 0);
  return Judge(true);
}
Result BecomeRoot(const Targets&) { return Judge(syscall(SYS_setresuid, 0, 0, 0) == 0); }
Result SecretMemory(const Targets&) { return FromDescriptor(syscall(SYS_memfd_secret, 0)); }
Result CallByX32(const Targets&) {
  constexpr long kX32Bit = 0x40000000;
  return Judge(syscall(kX32Bit | SYS_getpid) >= 0);
}
Result MakeTimer(const Targets&) {
  // POSIX timers signal whom they are told to.
  sigevent event = {};
  event.sigev_notify = SIGEV_NONE;
  int timer = 0;
  return Judge(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0);
}

// Requests of devices that a worker's driver has no use for.
Result AskTerminal(const Targets&) {
  char settings[64];
  errno = 0;
  return JudgeReached(ioctl(STDIN_FILENO, TCGETS, settings));
}
Result AskDevice(const char* path, unsigned long request) {
  const UniqueFd device(open(path, O_RDWR | O_CLOEXEC));
  if (!device.valid()) return {Outcome::kNotHere, "ENODEV"};
  char parameters[64] = {};
  return JudgeReached(ioctl(device.get(), request, parameters));
}
// Reads the memory of a process (UVM_TOOLS_READ_PROCESS_MEMORY).
Result ReadMemoryByUnifiedMemory(const Targets&) { return AskDevice("/dev/nvidia-uvm", 62); }
// NV_ESC_IOCTL_XFER_CMD: a request wrapped into another, where no filter sees it.
Result WrapRequest(const Targets&) {
  return AskDevice("/dev/nvidiactl", _IOC(_IOC_READ | _IOC_WRITE, 'F', 211, 16));
}
// NV_ESC_RM_SHARE: gives an object of the resource manager to other clients.
Result ShareObject(const Targets&) {
  return AskDevice("/dev/nvidiactl", _IOC(_IOC_READ | _IOC_WRITE, 'F', 0x35, 24));
}
// NV_ESC_RM_DUP_OBJECT: takes what another client has shared. Workers of several devices need it.
Result DuplicateObject(const Targets&) {
  return AskDevice("/dev/nvidiactl", _IOC(_IOC_READ | _IOC_WRITE, 'F', 0x34, 28));
}

constexpr Attempt kAttempts[] = {
    {"clone_a_user_namespace", kCalls, &CloneUserNamespace},
    {"unshare_mounts", kPrivileged, &UnshareMounts},
    {"unshare_network", kPrivileged, &UnshareNetwork},
    {"enter_network_of_server", kPrivileged | Layer::kFiles, &EnterNetworkOfServer},
    {"mount_a_file_system", kPrivileged | Layer::kFiles, &Mount},
    {"make_root_writable", kPrivileged | Layer::kFiles, &MakeRootWritable},
    {"change_root", kPrivileged, &ChangeRoot},
    {"pivot_root", kPrivileged | Layer::kFiles, &PivotRoot},
    {"set_host_name", kPrivileged, &SetHostName},
    {"make_an_io_uring", kCalls, &MakeIoUring},
    {"handle_page_faults", kCalls, &MakeUserFaults},
    {"make_a_kernel_map", kPrivileged, &MakeKernelMap},
    {"count_events_of_server", kPrivileged | Layer::kFiles, &CountEvents},
    {"add_a_key", kCalls, &AddKey},
    {"find_the_users_keyring", kCalls, &ReadSessionKeyring},
    {"load_a_kernel_module", kPrivileged, &LoadModule},
    {"load_a_kernel", kPrivileged, &LoadKernel},
    {"reboot", kPrivileged, &Reboot},
    {"swap_to_a_file", kPrivileged, &Swap},
    {"read_kernel_log_by_call", kPrivileged, &ReadKernelLog},
    {"watch_all_files", kCalls, &WatchFileSystem},
    {"change_personality", kCalls, &ChangePersonality},
    {"run_in_real_time", kPrivileged | Layer::kLimits, &RunInRealTime},
    {"raise_priority", kPrivileged | Layer::kLimits, &RaisePriority},
    {"become_root", kCalls | Layer::kIdentity, &BecomeRoot},
    {"make_secret_memory", kCalls, &SecretMemory},
    {"call_by_x32", kCalls, &CallByX32},
    {"make_a_posix_timer", kCalls, &MakeTimer},
    {"ask_a_terminal", kCalls, &AskTerminal},
    {"read_memory_by_unified_memory", kCalls, &ReadMemoryByUnifiedMemory},
    {"wrap_a_request", kCalls, &WrapRequest},
    {"share_an_object_of_the_driver", kCalls, &ShareObject},
    {"duplicate_an_object_of_the_driver", kCalls, &DuplicateObject},
};

}  // namespace

absl::Span<const Attempt> KernelAttempts() { return kAttempts; }

}  // namespace warpline::attack
