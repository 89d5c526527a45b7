/* Defines every function of NVML as one that returns NVML_ERROR_NOT_SUPPORTED. The symbols are weak,
 * so that the functions of this folder's C files take their places. A program that looks up a
 * function that is not served finds it, and is told so. x86-64. */
.macro DEFAULT name
  .weak \name
  .type \name, @function
  .p2align 4
\name:
  endbr64
  movl $3, %eax
  ret
  .size \name, . - \name
.endm
#define NVML_SYMBOL(name) DEFAULT name

  .text
#include "client_stub/nvml/symbols.inc"
#undef NVML_SYMBOL

  .section .note.GNU-stack, "", @progbits
