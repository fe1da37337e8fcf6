// fibers.h - switching between stacks. Each CUDA thread of a block runs on its own stack.
#pragma once
#include "state.h"

extern "C" OPTIML_HIDDEN void optiml_switch(void** save, void* load);
#if defined(__x86_64__)
asm(R"(
.text
.globl optiml_switch
.hidden optiml_switch
.type optiml_switch,@function
optiml_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size optiml_switch,.-optiml_switch
)");
static void* new_stack(char* top, void (*start)()) {
  void** sp = (void**)((uintptr_t)top & ~(uintptr_t)15);
  *--sp = nullptr;  // stands for start's return address: rsp % 16 == 8 at its entry
  *--sp = (void*)start;
  for (int k = 0; k < 6; k++) *--sp = nullptr;
  return sp;
}
#elif defined(__aarch64__)
asm(R"(
.text
.globl optiml_switch
.hidden optiml_switch
.type optiml_switch,%function
optiml_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size optiml_switch,.-optiml_switch
)");
static void* new_stack(char* top, void (*start)()) {
  char* sp = (char*)((uintptr_t)top & ~(uintptr_t)15) - 160;
  memset(sp, 0, 160);
  ((void**)sp)[11] = (void*)start;  // x30, where the switch returns to
  return sp;
}
#else
#error "the emulator has no stack switch for this processor"
#endif
