#include "server/jail/system_call_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace warpline::jail {
namespace {

constexpr uint32_t kArchitectureAt = offsetof(seccomp_data, arch);
constexpr uint32_t kNumberAt = offsetof(seccomp_data, nr);
// Arguments have 64 bits. The lower half comes first on this processor.
constexpr uint32_t LowAt(int argument) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * static_cast<size_t>(argument));
}
constexpr uint32_t HighAt(int argument) { return LowAt(argument) + 4; }

// System calls of the x32 ABI have these numbers, and would get around the list.
constexpr uint32_t kX32Bit = 0x40000000;
#ifndef PR_SET_VMA
constexpr uint32_t PR_SET_VMA = 0x53564d41;
#endif

constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
// Says that the kernel does not have the call.
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

sock_filter Load(uint32_t at) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at); }
sock_filter Return(uint32_t what) { return BPF_STMT(BPF_RET | BPF_K, what); }
// Skips the next instruction unless the value equals `k`.
sock_filter IfEqual(uint32_t k) { return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1); }
// Skips the next instruction unless the value has a bit of `k`.
sock_filter IfAnyBit(uint32_t k) { return BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, k, 0, 1); }

using Program = std::vector<sock_filter>;

void Append(std::initializer_list<sock_filter> instructions, Program* program) {
  program->insert(program->end(), instructions);
}

// Allows a call whose second argument is one of the requests. The kernel takes its lower half.
void AllowRequests(absl::Span<const RequestRule> requests, Program* program) {
  uint32_t mask = 0;
  for (const RequestRule& request : requests) {
    if (request.mask != mask) {
      mask = request.mask;
      Append({Load(LowAt(1)), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask)}, program);
    }
    Append({IfEqual(request.value), Return(SECCOMP_RET_ALLOW)}, program);
  }
  program->push_back(Return(kRefuse));
}

// What decides on a call whose number is known. Each ends with a return.
Program Decide(CallRule rule, const Profile& profile) {
  Program program;
  switch (rule) {
    case CallRule::kAny:
      Append({Return(SECCOMP_RET_ALLOW)}, &program);
      break;
    case CallRule::kThreadOnly:
      Append({Load(LowAt(0)), IfAnyBit(CLONE_THREAD), Return(SECCOMP_RET_ALLOW), Return(kRefuse)},
             &program);
      break;
    case CallRule::kForkOnly:
      Append({Load(LowAt(0)), IfEqual(CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | SIGCHLD),
              Return(SECCOMP_RET_ALLOW), Return(kRefuse)},
             &program);
      break;
    case CallRule::kOwnProcess:
      // The kernel takes an int for the number of a process, so that the upper half does not count.
      Append({Load(LowAt(0)), IfEqual(static_cast<uint32_t>(getpid())), Return(SECCOMP_RET_ALLOW),
              Return(kRefuse)},
             &program);
      break;
    case CallRule::kOwnLimits:
      Append({Load(LowAt(0)), IfEqual(0), Return(SECCOMP_RET_ALLOW), Return(kRefuse)}, &program);
      break;
    case CallRule::kOwnLimitsOnly: {
      const auto refuse_unless_zero = [&program](uint32_t at) {
        Append({Load(at), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), Return(kRefuse)}, &program);
      };
      refuse_unless_zero(LowAt(0));
      refuse_unless_zero(LowAt(2));
      refuse_unless_zero(HighAt(2));
      Append({Return(SECCOMP_RET_ALLOW)}, &program);
      break;
    }
    case CallRule::kHarmlessOptions:
      Append({Load(LowAt(0))}, &program);
      for (const uint32_t option :
           {uint32_t{PR_SET_NAME}, uint32_t{PR_GET_NAME}, uint32_t{PR_SET_TIMERSLACK},
            uint32_t{PR_GET_TIMERSLACK}, uint32_t{PR_SET_VMA}, uint32_t{PR_GET_DUMPABLE}}) {
        Append({IfEqual(option), Return(SECCOMP_RET_ALLOW)}, &program);
      }
      Append({Return(kRefuse)}, &program);
      break;
    case CallRule::kSealsOnly:
      Append({Load(LowAt(1)), IfEqual(F_GET_SEALS), Return(SECCOMP_RET_ALLOW), Return(kRefuse)},
             &program);
      break;
    case CallRule::kInternetOnly:
      Append({Load(LowAt(0)), IfEqual(AF_INET), Return(SECCOMP_RET_ALLOW), IfEqual(AF_INET6),
              Return(SECCOMP_RET_ALLOW), Return(kRefuse)},
             &program);
      break;
    case CallRule::kDriverRequests:
      AllowRequests(profile.requests, &program);
      break;
  }
  return program;
}

Program FilterFor(const Profile& profile) {
  Program program = {
      Load(kArchitectureAt),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      Return(kRefuse),
      Load(kNumberAt),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32Bit, 0, 1),
      Return(kRefuse),
  };
  for (const SystemCallRule& rule : profile.system_calls) {
    const Program decision = Decide(rule.rule, profile);
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(rule.number), 0,
                               static_cast<uint8_t>(decision.size())));
    program.insert(program.end(), decision.begin(), decision.end());
  }
  // Its flags lie in memory, which a filter cannot read; when it is not there, libc uses clone().
  Append({IfEqual(SYS_clone3), Return(kUnknown), Return(kRefuse)}, &program);
  return program;
}

}  // namespace

absl::Status FilterSystemCalls(const Profile& profile) {
  Program program = FilterFor(profile);
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0) {
    return absl::ErrnoToStatus(errno, "seccomp");
  }
  return absl::OkStatus();
}

}  // namespace warpline::jail
