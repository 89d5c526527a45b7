#include "server/worker/host/sandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"

namespace warpline::worker {
namespace {

constexpr int kDenied[] = {SYS_execve,
                           SYS_execveat,
                           SYS_fork,
                           SYS_vfork,
                           SYS_ptrace,
                           SYS_process_vm_readv,
                           SYS_process_vm_writev,
                           SYS_pidfd_getfd,
                           SYS_kexec_load,
                           SYS_init_module,
                           SYS_finit_module,
                           SYS_bpf};

constexpr uint32_t kArchitectureAt = offsetof(seccomp_data, arch);
constexpr uint32_t kNumberAt = offsetof(seccomp_data, nr);
constexpr uint32_t kFirstArgumentAt = offsetof(seccomp_data, args[0]);
// System calls of the x32 ABI have these numbers, and would get around the list.
constexpr uint32_t kX32Bit = 0x40000000;

sock_filter Load(uint32_t at) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at); }
sock_filter Return(uint32_t what) { return BPF_STMT(BPF_RET | BPF_K, what); }
// Skips the next instruction unless the value equals `k`.
sock_filter IfEqual(uint32_t k) { return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1); }

uint32_t Errno(int error) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(error); }

std::vector<sock_filter> Program() {
  std::vector<sock_filter> program = {
      Load(kArchitectureAt),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      Return(Errno(EPERM)),
      Load(kNumberAt),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32Bit, 0, 1),
      Return(Errno(EPERM)),
  };
  for (const int number : kDenied) {
    program.push_back(IfEqual(static_cast<uint32_t>(number)));
    program.push_back(Return(Errno(EPERM)));
  }
  // Its flags lie in memory, which a filter cannot read; when it fails, libc uses clone().
  program.push_back(IfEqual(SYS_clone3));
  program.push_back(Return(Errno(ENOSYS)));
  // clone() is allowed for threads only.
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0));
  program.push_back(Return(SECCOMP_RET_ALLOW));
  program.push_back(Load(kFirstArgumentAt));
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0));
  program.push_back(Return(Errno(EPERM)));
  program.push_back(Return(SECCOMP_RET_ALLOW));
  return program;
}

}  // namespace

absl::Status EnterSandbox() {
  std::vector<sock_filter> program = Program();
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0) {
    return absl::InternalError(absl::StrCat("no sandbox: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace warpline::worker
