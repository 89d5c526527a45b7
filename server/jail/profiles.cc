#include "server/jail/profiles.h"

#include <linux/sockios.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/syscall.h>

#include <cstddef>
#include <iterator>

namespace warpline::jail {
namespace {

constexpr LayerSet kAll = LayerSet(Layer::kLimits) | Layer::kIdentity | Layer::kNamespaces |
                          Layer::kMounts | Layer::kCapabilities | Layer::kUndumpable |
                          Layer::kFiles | Layer::kSystemCalls | Layer::kCgroup;

// What NVIDIA's driver and the C library read and open. The GPUs themselves are not in the list:
// who starts the process names those of its devices. Only what lists of processes cannot be read
// from is taken of /proc, but for the first ones here, which MPS daemons have: they execute
// programs, and each of their processes reads what /proc has of itself, and names its threads
// there, which rules cannot name before it is there.
constexpr FileRule kFilesOfMps[] = {
    {"/usr", FileAccess::kExecute},
    {"/lib", FileAccess::kExecute},
    {"/lib64", FileAccess::kExecute},
    {"/nix/store", FileAccess::kExecute},
    {"/proc", FileAccess::kMake},  // In which nothing can be made.
    // --- All.
    {"/usr", FileAccess::kRead},
    {"/lib", FileAccess::kRead},
    {"/lib64", FileAccess::kRead},
    {"/nix/store", FileAccess::kRead},
    {"/run/opengl-driver", FileAccess::kRead},
    {"/etc/ld.so.cache", FileAccess::kRead},
    {"/etc/localtime", FileAccess::kRead},
    {"/etc/nvidia", FileAccess::kRead},
    {"/sys/bus/pci", FileAccess::kRead},
    {"/sys/class", FileAccess::kRead},
    {"/sys/devices", FileAccess::kRead},
    {"/sys/module", FileAccess::kRead},
    {"/proc/cpuinfo", FileAccess::kRead},
    {"/proc/devices", FileAccess::kRead},
    {"/proc/driver/nvidia", FileAccess::kRead},
    {"/proc/driver/nvidia-uvm", FileAccess::kRead},
    {"/proc/filesystems", FileAccess::kRead},
    {"/proc/meminfo", FileAccess::kRead},
    {"/proc/modules", FileAccess::kRead},
    {"/proc/stat", FileAccess::kRead},
    {"/proc/sys", FileAccess::kRead},
    {"/proc/version", FileAccess::kRead},
    {"/dev/null", FileAccess::kReadWrite},
    {"/dev/zero", FileAccess::kReadWrite},
    {"/dev/random", FileAccess::kRead},
    {"/dev/urandom", FileAccess::kRead},
    {"/dev/nvidiactl", FileAccess::kReadWrite},
    {"/dev/nvidia-uvm", FileAccess::kReadWrite},
    {"/dev/nvidia-caps", FileAccess::kReadWrite},
};

constexpr size_t kFilesOfMpsAlone = 5;
constexpr auto kFiles = absl::MakeConstSpan(kFilesOfMps).subspan(kFilesOfMpsAlone);

// What a process does that has opened its device, with NVIDIA's driver in it: memory, files that it
// may open, its one socket, threads, time.
constexpr SystemCallRule kSystemCalls[] = {
    // Memory.
    {SYS_brk},
    {SYS_madvise},
    {SYS_mbind},
    {SYS_membarrier},
    {SYS_mincore},
    {SYS_mlock},
    {SYS_mmap},
    {SYS_mprotect},
    {SYS_mremap},
    {SYS_msync},
    {SYS_munlock},
    {SYS_munmap},
    {SYS_get_mempolicy},
    {SYS_memfd_create},
    // Files and descriptors.
    {SYS_access},
    {SYS_close},
    {SYS_close_range},
    {SYS_dup},
    {SYS_dup2},
    {SYS_dup3},
    {SYS_faccessat},
    {SYS_faccessat2},
    {SYS_fadvise64},
    {SYS_fallocate},
    {SYS_fcntl},
    {SYS_fstat},
    {SYS_fstatfs},
    {SYS_ftruncate},
    {SYS_getcwd},
    {SYS_getdents64},
    {SYS_ioctl, CallRule::kDriverRequests},
    {SYS_lseek},
    {SYS_lstat},
    {SYS_newfstatat},
    {SYS_open},
    {SYS_openat},
    {SYS_pread64},
    {SYS_preadv},
    {SYS_pwrite64},
    {SYS_pwritev},
    {SYS_read},
    {SYS_readlink},
    {SYS_readlinkat},
    {SYS_readv},
    {SYS_stat},
    {SYS_statfs},
    {SYS_statx},
    {SYS_write},
    {SYS_writev},
    // The socket to the server, which is the only one: none can be made.
    {SYS_getsockopt},
    {SYS_recvfrom},
    {SYS_recvmsg},
    {SYS_sendmsg},
    {SYS_sendto},
    {SYS_setsockopt},
    // Waiting.
    {SYS_epoll_create1},
    {SYS_epoll_ctl},
    {SYS_epoll_pwait},
    {SYS_epoll_wait},
    {SYS_eventfd2},
    {SYS_futex},
    {SYS_pipe2},
    {SYS_poll},
    {SYS_ppoll},
    {SYS_pselect6},
    {SYS_select},
    {SYS_timerfd_create},
    {SYS_timerfd_settime},
    // Threads and signals of the process itself.
    {SYS_arch_prctl},
    {SYS_clone, CallRule::kThreadOnly},
    {SYS_exit},
    {SYS_exit_group},
    {SYS_getcpu},
    {SYS_getegid},
    {SYS_geteuid},
    {SYS_getgid},
    {SYS_getpid},
    {SYS_getppid},
    {SYS_getpriority},
    {SYS_getrlimit},
    {SYS_getrusage},
    {SYS_gettid},
    {SYS_getuid},
    {SYS_prctl, CallRule::kHarmlessOptions},
    {SYS_prlimit64, CallRule::kOwnLimitsOnly},
    {SYS_restart_syscall},
    {SYS_rseq},
    {SYS_rt_sigaction},
    {SYS_rt_sigpending},
    {SYS_rt_sigprocmask},
    {SYS_rt_sigreturn},
    {SYS_rt_sigtimedwait},
    {SYS_sched_get_priority_max},
    {SYS_sched_get_priority_min},
    {SYS_sched_getaffinity},
    {SYS_sched_getparam},
    {SYS_sched_getscheduler},
    {SYS_sched_yield},
    {SYS_set_robust_list},
    {SYS_set_tid_address},
    {SYS_sigaltstack},
    {SYS_tgkill, CallRule::kOwnProcess},
    // Time and the rest.
    {SYS_clock_getres},
    {SYS_clock_gettime},
    {SYS_clock_nanosleep},
    {SYS_getrandom},
    {SYS_gettimeofday},
    {SYS_nanosleep},
    {SYS_sysinfo},
    {SYS_time},
    {SYS_times},
    {SYS_uname},
};

// A request of NVIDIA's resource manager (nv_escape.h, nv-ioctl-numbers.h), whatever the size of
// its parameters, and one of its unified memory (uvm_ioctl.h), of which only the number counts.
constexpr RequestRule ResourceManager(uint32_t number) { return {0xffff, 'F' << 8 | number}; }
constexpr RequestRule UnifiedMemory(uint32_t number) { return {0xffffffff, number}; }

// What the driver asks for in a process that has contexts: what was seen (docs/decisions/0020), and
// what undoes it. Not in the list are the requests to share objects with other clients, to read and
// set the driver's registry, to export memory for other devices, to wrap a request into another,
// and all of unified memory's tools, which read and write memory.
constexpr RequestRule kRequestsOfSeveral[] = {
    // Duplicate an object. What the driver allocates for itself on one of several devices it gives
    // to the others by a duplicate, at any time. Between processes the driver refuses it, unless
    // the owner has shared the object, by a request that no jailed process has.
    ResourceManager(0x34),
    ResourceManager(0x27),      // Allocate memory.
    ResourceManager(0x29),      // Free.
    ResourceManager(0x2a),      // Control.
    ResourceManager(0x2b),      // Allocate.
    ResourceManager(0x41),      // Idle channels.
    ResourceManager(0x4a),      // Heap control.
    ResourceManager(0x4e),      // Map memory.
    ResourceManager(0x4f),      // Unmap memory.
    ResourceManager(0x54),      // Allocate a context for DMA.
    ResourceManager(0x57),      // Map memory for DMA.
    ResourceManager(0x58),      // Unmap memory for DMA.
    ResourceManager(0x5e),      // Update a mapping.
    ResourceManager(200),       // Card information.
    ResourceManager(201),       // Register a descriptor.
    ResourceManager(206),       // Allocate an event.
    ResourceManager(207),       // Free an event.
    ResourceManager(210),       // Check the version.
    ResourceManager(212),       // Attach GPUs to a descriptor.
    ResourceManager(214),       // System parameters.
    ResourceManager(215),       // NUMA information.
    ResourceManager(218),       // Wait until a device is open.
    UnifiedMemory(0x30000001),  // Initialize.
    UnifiedMemory(0x30000002),  // The reverse.
    UnifiedMemory(23),          // Create a group of ranges.
    UnifiedMemory(24),          // Destroy it.
    UnifiedMemory(25),          // Register the address space of a GPU.
    UnifiedMemory(26),          // Unregister it.
    UnifiedMemory(27),          // Register a channel.
    UnifiedMemory(28),          // Unregister it.
    UnifiedMemory(29),          // Enable access by a peer.
    UnifiedMemory(30),          // Disable it.
    UnifiedMemory(31),          // Set the group of a range.
    UnifiedMemory(33),          // Map an external allocation.
    UnifiedMemory(34),          // Free.
    UnifiedMemory(37),          // Register a GPU.
    UnifiedMemory(38),          // Unregister it.
    UnifiedMemory(39),          // Whether pageable memory can be reached.
    UnifiedMemory(42),          // Set the preferred location.
    UnifiedMemory(43),          // Unset it.
    UnifiedMemory(44),          // Enable duplication for reading.
    UnifiedMemory(45),          // Disable it.
    UnifiedMemory(46),          // Set who accesses a range.
    UnifiedMemory(47),          // Unset it.
    UnifiedMemory(51),          // Migrate.
    UnifiedMemory(53),          // Migrate a group.
    UnifiedMemory(65),          // Map the region of dynamic parallelism.
    UnifiedMemory(66),          // Unmap an external allocation.
    UnifiedMemory(68),          // Allocate a pool of semaphores.
    UnifiedMemory(70),          // Whether one GPU reaches pageable memory.
    UnifiedMemory(72),          // Validate a range.
    UnifiedMemory(73),          // Create an external range.
    UnifiedMemory(75),          // Attach to the process's memory.
};

// With one device nothing is duplicated.
constexpr auto kRequests = absl::MakeConstSpan(kRequestsOfSeveral).subspan(1);

// The C library and UCX read these of the system's network. The first ones are libibverbs's, for
// relays that may use RDMA.
constexpr FileRule kFilesOfRdmaRelays[] = {
    {"/dev/infiniband", FileAccess::kReadWrite},
    {"/etc/libibverbs.d", FileAccess::kRead},
    {"/sys/class/infiniband", FileAccess::kRead},
    {"/sys/class/infiniband_verbs", FileAccess::kRead},
    // --- All.
    {"/usr", FileAccess::kRead},
    {"/lib", FileAccess::kRead},
    {"/lib64", FileAccess::kRead},
    {"/etc/ld.so.cache", FileAccess::kRead},
    {"/etc/localtime", FileAccess::kRead},
    {"/sys/class/net", FileAccess::kRead},
    {"/sys/devices", FileAccess::kRead},
    {"/proc/cpuinfo", FileAccess::kRead},
    {"/proc/meminfo", FileAccess::kRead},
    {"/proc/sys", FileAccess::kRead},
    {"/dev/null", FileAccess::kReadWrite},
    {"/dev/random", FileAccess::kRead},
    {"/dev/urandom", FileAccess::kRead},
};

constexpr size_t kFilesOfRdmaAlone = 4;
constexpr auto kRelayFiles = absl::MakeConstSpan(kFilesOfRdmaRelays).subspan(kFilesOfRdmaAlone);

// The system calls of a relay that listens. It takes connections, reads and writes its sockets and
// the rings that it shares with the server, and asks what its network interface can do. It makes no
// connection, and listens nowhere else.
constexpr SystemCallRule kRelaySystemCalls[] = {
    // Memory.
    {SYS_brk},
    {SYS_madvise},
    {SYS_membarrier},
    {SYS_mmap},
    {SYS_mprotect},
    {SYS_mremap},
    {SYS_munmap},
    // Files and descriptors.
    {SYS_access},
    {SYS_close},
    {SYS_dup3},
    {SYS_faccessat},
    {SYS_faccessat2},
    {SYS_fcntl},
    {SYS_fstat},
    {SYS_getdents64},
    {SYS_ioctl, CallRule::kDriverRequests},
    {SYS_lseek},
    {SYS_newfstatat},
    {SYS_open},
    {SYS_openat},
    {SYS_pread64},
    {SYS_read},
    {SYS_readlink},
    {SYS_readlinkat},
    {SYS_readv},
    {SYS_stat},
    {SYS_statx},
    {SYS_write},
    {SYS_writev},
    // Sockets.
    {SYS_accept},
    {SYS_accept4},
    {SYS_getpeername},
    {SYS_getsockname},
    {SYS_getsockopt},
    {SYS_recvfrom},
    {SYS_recvmsg},
    {SYS_sendmsg},
    {SYS_sendto},
    {SYS_setsockopt},
    {SYS_shutdown},
    {SYS_socket, CallRule::kInternetOnly},
    // Waiting.
    {SYS_epoll_create1},
    {SYS_epoll_ctl},
    {SYS_epoll_pwait},
    {SYS_epoll_wait},
    {SYS_eventfd2},
    {SYS_futex},
    {SYS_poll},
    {SYS_ppoll},
    {SYS_timerfd_create},
    {SYS_timerfd_settime},
    // Threads and signals of the process itself.
    {SYS_clone, CallRule::kThreadOnly},
    {SYS_exit},
    {SYS_exit_group},
    {SYS_getcpu},
    {SYS_getpid},
    {SYS_gettid},
    {SYS_prctl, CallRule::kHarmlessOptions},
    {SYS_prlimit64, CallRule::kOwnLimitsOnly},
    {SYS_restart_syscall},
    {SYS_rseq},
    {SYS_rt_sigaction},
    {SYS_rt_sigprocmask},
    {SYS_rt_sigreturn},
    {SYS_sched_getaffinity},
    {SYS_sched_yield},
    {SYS_set_robust_list},
    {SYS_sigaltstack},
    {SYS_tgkill, CallRule::kOwnProcess},
    // Time and the rest.
    {SYS_clock_getres},
    {SYS_clock_gettime},
    {SYS_clock_nanosleep},
    {SYS_getrandom},
    {SYS_gettimeofday},
    {SYS_nanosleep},
    {SYS_sysinfo},
    {SYS_uname},
};

// What may be asked of a network interface (ioctl(2) on a socket): its flags, address, MTU and
// hardware address, and what ethtool(8) knows of its speed.
constexpr RequestRule kRequestsOfRdmaRelays[] = {
    // All that libibverbs asks of an RDMA device goes by this one.
    {0xffffffff, RDMA_VERBS_IOCTL},
    // --- All.
    {0xffffffff, SIOCGIFFLAGS},
    {0xffffffff, SIOCGIFADDR},
    {0xffffffff, SIOCGIFNETMASK},
    {0xffffffff, SIOCGIFMTU},
    {0xffffffff, SIOCGIFHWADDR},
    {0xffffffff, SIOCGIFINDEX},
    {0xffffffff, SIOCETHTOOL},
};

constexpr auto kRelayRequests = absl::MakeConstSpan(kRequestsOfRdmaRelays).subspan(1);

// What a compiler opens once it has loaded NVIDIA's library.
constexpr FileRule kCompilerFiles[] = {
    {"/etc/localtime", FileAccess::kRead}, {"/usr/share/zoneinfo", FileAccess::kRead},
    {"/dev/null", FileAccess::kReadWrite}, {"/dev/random", FileAccess::kRead},
    {"/dev/urandom", FileAccess::kRead},
};

// What a compiler does, and, from the mark on, what a stage of it does: a stage computes, and reads
// and writes the files that it has been handed.
constexpr SystemCallRule kCompilerSystemCalls[] = {
    // Stages: starting them, confining them, waiting for them, ending them. A list of calls holds
    // for what is forked, too, so that of a stage's jail is here.
    {SYS_clone, CallRule::kForkOnly},
    {SYS_close_range},
    {SYS_dup2},
    {SYS_landlock_create_ruleset},
    {SYS_landlock_restrict_self},
    {SYS_pidfd_open},
    {SYS_pidfd_send_signal},
    {SYS_prctl},
    {SYS_prlimit64, CallRule::kOwnLimits},
    {SYS_seccomp},
    {SYS_set_robust_list},
    {SYS_wait4},
    {SYS_waitid},
    // The sockets of the server and of the workers, and files in memory.
    {SYS_fcntl},
    {SYS_memfd_create},
    {SYS_poll},
    {SYS_ppoll},
    {SYS_recvmsg},
    {SYS_sendmsg},
    {SYS_openat},
    {SYS_getppid},
    {SYS_restart_syscall},
    // --- Stages.
    {SYS_fcntl, CallRule::kSealsOnly},
    {SYS_brk},
    {SYS_madvise},
    {SYS_mmap},
    {SYS_mprotect},
    {SYS_mremap},
    {SYS_munmap},
    {SYS_close},
    {SYS_fstat},
    {SYS_ftruncate},
    {SYS_lseek},
    {SYS_newfstatat},
    {SYS_pread64},
    {SYS_pwrite64},
    {SYS_read},
    {SYS_write},
    {SYS_futex},
    {SYS_exit},
    {SYS_exit_group},
    {SYS_getpid},
    {SYS_gettid},
    {SYS_getrusage},
    {SYS_rt_sigaction},
    {SYS_rt_sigprocmask},
    {SYS_rt_sigreturn},
    {SYS_sched_getaffinity},
    {SYS_sched_yield},
    {SYS_clock_getres},
    {SYS_clock_gettime},
    {SYS_getrandom},
    {SYS_gettimeofday},
    {SYS_sysinfo},
    {SYS_time},
    {SYS_times},
    {SYS_uname},
};
constexpr size_t kCallsOfStages = 35;
constexpr auto kStageSystemCalls = absl::MakeConstSpan(kCompilerSystemCalls)
                                       .subspan(std::size(kCompilerSystemCalls) - kCallsOfStages);
static_assert(kStageSystemCalls.front().number == SYS_fcntl);

// A stage has one thread, and nothing to give away.
constexpr Limit kStageLimits[] = {
    {RLIMIT_CORE, "core", 0},         {RLIMIT_RTPRIO, "rtprio", 0},   {RLIMIT_NICE, "nice", 0},
    {RLIMIT_MSGQUEUE, "msgqueue", 0}, {RLIMIT_MEMLOCK, "memlock", 0}, {RLIMIT_NPROC, "nproc", 0},
};

// The daemon is NVIDIA's program, which starts another: what they ask of the kernel is theirs to
// say.
constexpr LayerSet kMpsLayers = LayerSet(Layer::kLimits) | Layer::kIdentity | Layer::kNamespaces |
                                Layer::kMounts | Layer::kCapabilities | Layer::kUndumpable |
                                Layer::kFiles | Layer::kCgroup;

constexpr LayerSet kStageLayers =
    LayerSet(Layer::kLimits) | Layer::kUndumpable | Layer::kFiles | Layer::kSystemCalls;

constexpr Limit kLimits[] = {
    {RLIMIT_CORE, "core", 0},         {RLIMIT_RTPRIO, "rtprio", 0},     {RLIMIT_NICE, "nice", 0},
    {RLIMIT_MSGQUEUE, "msgqueue", 0}, {RLIMIT_NOFILE, "nofile", 65536},
};

// Without a list of system calls it could fork for ever. The group's workers have the same user,
// and their threads count, too. What clients do wrong it writes into its log.
constexpr Limit kMpsLimits[] = {
    {RLIMIT_CORE, "core", 0},          {RLIMIT_RTPRIO, "rtprio", 0},
    {RLIMIT_NICE, "nice", 0},          {RLIMIT_MSGQUEUE, "msgqueue", 0},
    {RLIMIT_NOFILE, "nofile", 65536},  {RLIMIT_NPROC, "nproc", 16384},
    {RLIMIT_FSIZE, "fsize", 64 << 20},
};

constexpr Profile kProfiles[] = {
    {kWorkerProfile, kAll, kFiles, kSystemCalls, kRequests, kLimits},
    {kPeersProfile, kAll, kFiles, kSystemCalls, kRequestsOfSeveral, kLimits},
    // A client of MPS has duplicates of objects that its server owns.
    {kMpsWorkerProfile, kAll, kFiles, kSystemCalls, kRequestsOfSeveral, kLimits},
    {kMpsProfile, kMpsLayers, kFilesOfMps, {}, {}, kMpsLimits},
    // It executes no tenant's code, but the descriptors of its memory go through many hands.
    {kKeeperProfile, kAll, kFiles, kSystemCalls, kRequests, kLimits},
    {kRelayProfile, kAll, kRelayFiles, kRelaySystemCalls, kRelayRequests, kLimits,
     /*listens=*/true},
    {kRdmaRelayProfile, kAll, kFilesOfRdmaRelays, kRelaySystemCalls, kRequestsOfRdmaRelays, kLimits,
     /*listens=*/true},
    {kCompilerProfile, kAll, kCompilerFiles, kCompilerSystemCalls, {}, kLimits},
    {kStageProfile,
     kStageLayers,
     {},
     kStageSystemCalls,
     {},
     kStageLimits,
     /*listens=*/false,
     /*nested=*/true},
};

}  // namespace

const Profile* ProfileNamed(absl::string_view name) {
  for (const Profile& profile : kProfiles) {
    if (name == profile.name) return &profile;
  }
  return nullptr;
}

}  // namespace warpline::jail
