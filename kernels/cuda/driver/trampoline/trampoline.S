// One trampoline and one slot for each driver function. A trampoline jumps to its slot's address and keeps
// arguments and stack, so it serves every signature. Symbols are hidden: libraries opened later must find the
// driver's own functions, not these.

#if defined(__x86_64__)

.macro ga_trampoline name
  .text
  .p2align 4
  .globl \name
  .hidden \name
  .type \name, @function
\name:
  jmp *ga_slot_\name(%rip)
  .size \name, . - \name
  .data
  .p2align 3
  .globl ga_slot_\name
  .hidden ga_slot_\name
  .type ga_slot_\name, @object
ga_slot_\name:
  .quad ga_cuda_unopened
  .size ga_slot_\name, 8
.endm

#elif defined(__aarch64__)

// x16 is free between a call and its target.
.macro ga_trampoline name
  .text
  .p2align 4
  .globl \name
  .hidden \name
  .type \name, %function
\name:
  adrp x16, ga_slot_\name
  ldr x16, [x16, :lo12:ga_slot_\name]
  br x16
  .size \name, . - \name
  .data
  .p2align 3
  .globl ga_slot_\name
  .hidden ga_slot_\name
  .type ga_slot_\name, %object
ga_slot_\name:
  .quad ga_cuda_unopened
  .size ga_slot_\name, 8
.endm

#else
#error "the driver's functions are reached on x86-64 and arm64 only"
#endif

#define GA_CUDA(name, symbol, parameters) ga_trampoline name
#define GA_CUDA_NEEDED(name, symbol, parameters) ga_trampoline name
#include "cuda_functions.h"

#if defined(__linux__)
  .section .note.GNU-stack, "", %progbits
#endif
