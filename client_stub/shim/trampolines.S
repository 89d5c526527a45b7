/* The exported entry points, x86-64.
 *
 * Each is a jump through warpline_table with its own index in %eax, the one register that carries
 * no argument of a function without "..." in System V's calling convention. Until the core is
 * bound, every slot leads to warpline_lazy.
 */

  .hidden warpline_table
  .hidden warpline_bind
  .hidden warpline_report_unsupported

/* 16 bytes each. */
.macro ENTRY index, name
  .globl \name
  .type \name, @function
  .p2align 4
\name:
  endbr64
  movl $\index, %eax
  jmp *(warpline_table + 8 * \index)(%rip)
  .size \name, . - \name
.endm
#define WARPLINE_SYMBOL(index, name) ENTRY index, name

  .text
#include "client_stub/shim/symbols.inc"
#undef WARPLINE_SYMBOL

/* Binds the table, with every register that may carry an argument preserved, then goes where the
 * table leads. */
  .globl warpline_lazy
  .hidden warpline_lazy
  .type warpline_lazy, @function
  .p2align 4
warpline_lazy:
  .cfi_startproc
  endbr64
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $192, %rsp
  movq %rdi, 0(%rsp)
  movq %rsi, 8(%rsp)
  movq %rdx, 16(%rsp)
  movq %rcx, 24(%rsp)
  movq %r8, 32(%rsp)
  movq %r9, 40(%rsp)
  movq %rax, 48(%rsp)
  movaps %xmm0, 64(%rsp)
  movaps %xmm1, 80(%rsp)
  movaps %xmm2, 96(%rsp)
  movaps %xmm3, 112(%rsp)
  movaps %xmm4, 128(%rsp)
  movaps %xmm5, 144(%rsp)
  movaps %xmm6, 160(%rsp)
  movaps %xmm7, 176(%rsp)
  movl %eax, %edi
  call warpline_bind
  movq %rax, %r11
  movq 0(%rsp), %rdi
  movq 8(%rsp), %rsi
  movq 16(%rsp), %rdx
  movq 24(%rsp), %rcx
  movq 32(%rsp), %r8
  movq 40(%rsp), %r9
  movq 48(%rsp), %rax
  movaps 64(%rsp), %xmm0
  movaps 80(%rsp), %xmm1
  movaps 96(%rsp), %xmm2
  movaps 112(%rsp), %xmm3
  movaps 128(%rsp), %xmm4
  movaps 144(%rsp), %xmm5
  movaps 160(%rsp), %xmm6
  movaps 176(%rsp), %xmm7
  leave
  .cfi_def_cfa %rsp, 8
  jmp *%r11
  .cfi_endproc
  .size warpline_lazy, . - warpline_lazy

/* Entries that the core does not implement lead here. */
  .globl warpline_unsupported
  .hidden warpline_unsupported
  .type warpline_unsupported, @function
  .p2align 4
warpline_unsupported:
  endbr64
  movl %eax, %edi
  jmp warpline_report_unsupported
  .size warpline_unsupported, . - warpline_unsupported

  .section .note.GNU-stack, "", @progbits
