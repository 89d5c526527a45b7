#include "client_stub/core/registered/page_exchange.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace warpline::stub {

// From the first system call to the last nothing may write to memory but the copy itself: the
// pages may hold the stack, or what errno is. So all of it is one piece of assembly that keeps what
// it needs in registers.
bool ExchangePages(uint64_t at, uint64_t with, uint64_t bytes) {
  static_assert(SYS_mprotect == 10 && SYS_mremap == 25);
  static_assert(PROT_READ == 1 && PROT_WRITE == 2 && MREMAP_MAYMOVE == 1 && MREMAP_FIXED == 2);
  int64_t result;
  int64_t kept;
  asm volatile(
      // mprotect(at, bytes, PROT_READ)
      "mov %[at], %%rdi\n\t"
      "mov %[bytes], %%rsi\n\t"
      "mov $1, %%edx\n\t"
      "mov $10, %%eax\n\t"
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "js 2f\n\t"
      // The copy.
      "mov %[at], %%rsi\n\t"
      "mov %[with], %%rdi\n\t"
      "mov %[bytes], %%rcx\n\t"
      "cld\n\t"
      "rep movsb\n\t"
      // mremap(with, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at)
      "mov %[with], %%rdi\n\t"
      "mov %[bytes], %%rsi\n\t"
      "mov %[bytes], %%rdx\n\t"
      "mov $3, %%r10d\n\t"
      "mov %[at], %%r8\n\t"
      "mov $25, %%eax\n\t"
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jns 1f\n\t"
      // mprotect(at, bytes, PROT_READ | PROT_WRITE): the first may have changed a part.
      "2:\n\t"
      "mov %%rax, %[kept]\n\t"
      "mov %[at], %%rdi\n\t"
      "mov %[bytes], %%rsi\n\t"
      "mov $3, %%edx\n\t"
      "mov $10, %%eax\n\t"
      "syscall\n\t"
      "mov %[kept], %%rax\n\t"
      "1:\n\t"
      : "=&a"(result), [kept] "=&r"(kept)
      : [at] "r"(at), [with] "r"(with), [bytes] "r"(bytes)
      : "rdi", "rsi", "rdx", "rcx", "r8", "r10", "r11", "memory", "cc");
  return result >= 0;
}

// The kernel's own set of 64 signals, which the C library's functions do not take whole.
SignalsBlocked::SignalsBlocked() {
  const uint64_t all = ~uint64_t{0};
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before_, sizeof(before_));
}

SignalsBlocked::~SignalsBlocked() {
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof(before_));
}

}  // namespace warpline::stub
