// indirect_calls.cpp - where a candidate's indirect calls and jumps go through.
//
// The candidate is compiled with -mindirect-branch=thunk-extern, which turns `call *%rax` into
// `call __x86_indirect_thunk_rax` (GCC manual, "x86 Options"). Here the target is looked up in a bit map of the
// starts of the candidate's functions. So machine code that hides in constants, or between two instructions, is not
// reached by a function pointer, and what runs is what the hooks watch.
#include "indirect_calls.h"

extern "C" void __cxa_pure_virtual();
extern "C" __attribute__((used, visibility("hidden"))) void (*const optiml_keep_pure_virtual)() = __cxa_pure_virtual;

#if defined(__x86_64__)

extern "C" {
// One bit per byte of code; code beyond that is not called through pointers.
constexpr uint64_t OPTIML_CODE_BYTES = 8u << 20;
__attribute__((visibility("hidden"))) uint64_t optiml_code_starts[OPTIML_CODE_BYTES / 64];
__attribute__((visibility("hidden"))) uintptr_t optiml_code_base;
__attribute__((visibility("hidden"))) extern const char optiml_refused_call[];
}

// r11 and the flags are free at a call (System V ABI); the other registers hold arguments and stay as they are.
asm(R"(
.text
.hidden optiml_refused_call
.globl optiml_refused_call
optiml_refused_call:
  ud2
.macro optiml_thunk register
.globl __x86_indirect_thunk_\register
.type __x86_indirect_thunk_\register,@function
.p2align 5
__x86_indirect_thunk_\register:
  .ifnc \register,r11
  movq %\register,%r11
  .endif
  subq optiml_code_base(%rip),%r11
  cmpq $8388608,%r11
  jae optiml_refused_call
  btq %r11,optiml_code_starts(%rip)
  jnc optiml_refused_call
  .ifc \register,r11
  addq optiml_code_base(%rip),%r11
  .endif
  jmp *%\register
.size __x86_indirect_thunk_\register,.-__x86_indirect_thunk_\register
.endm
optiml_thunk rax
optiml_thunk rbx
optiml_thunk rcx
optiml_thunk rdx
optiml_thunk rsi
optiml_thunk rdi
optiml_thunk rbp
optiml_thunk r8
optiml_thunk r9
optiml_thunk r10
optiml_thunk r11
optiml_thunk r12
optiml_thunk r13
optiml_thunk r14
optiml_thunk r15
)");

void optiml_allow_calls(uintptr_t base, const uint32_t* starts, uint64_t count) {
  static_assert(OPTIML_CODE_BYTES == 8388608, "the thunks hold this number");
  optiml_code_base = base;
  for (uint64_t i = 0; i < count; i++)
    if (starts[i] < OPTIML_CODE_BYTES) optiml_code_starts[starts[i] / 64] |= (uint64_t)1 << (starts[i] % 64);
}

bool optiml_is_refused_call(uint64_t pc) { return pc == (uint64_t)(uintptr_t)optiml_refused_call; }

#else

void optiml_allow_calls(uintptr_t, const uint32_t*, uint64_t) {}
bool optiml_is_refused_call(uint64_t) { return false; }

#endif
