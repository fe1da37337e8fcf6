// sandbox.cpp - two seccomp filters, one before a candidate is mapped, one before it runs.
//
// A filter is a small program that the kernel runs at every system call (seccomp(2), "SECCOMP_SET_MODE_FILTER");
// it can only be tightened. Everything that is not named kills the process, which the parent sees as SIGSYS.
#include "sandbox.h"

#include <cerrno>
#include <cstddef>
#include <initializer_list>
#include <cstdint>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OPTIML_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OPTIML_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the sandbox knows x86-64 and aarch64"
#endif

namespace {

struct Program {
  sock_filter code[160];
  unsigned short length = 0;
  void add(sock_filter instruction) {
    if (length < sizeof code / sizeof *code) code[length] = instruction;
    length++;  // an overlong program is refused in install()
  }
};

sock_filter statement(uint16_t code, uint32_t value) { return BPF_STMT(code, value); }
sock_filter jump(uint16_t code, uint32_t value, uint8_t yes, uint8_t no) { return BPF_JUMP(code, value, yes, no); }

void load(Program& program, size_t offset) { program.add(statement(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset)); }

// The low half of argument `index` (both processors are little-endian).
size_t argument(int index) { return offsetof(seccomp_data, args) + 8 * (size_t)index; }

void begin(Program& program) {
  load(program, offsetof(seccomp_data, arch));
  program.add(jump(BPF_JMP | BPF_JEQ | BPF_K, OPTIML_ARCHITECTURE, 1, 0));
  program.add(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  load(program, offsetof(seccomp_data, nr));
#if defined(__x86_64__)
  // The x32 calls are the same ones under other numbers.
  program.add(jump(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1));
  program.add(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
#endif
}

void allow(Program& program, long number) {
  program.add(jump(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1));
  program.add(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

// Lets `number` through if argument `index` equals `value` (32 bits), else kills.
void allow_if_equal(Program& program, long number, int index, uint32_t value) {
  program.add(jump(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 4));
  load(program, argument(index));
  program.add(jump(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
  program.add(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  program.add(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
}

// Lets `number` through if no bit of `bits` is set in argument `index`, else kills.
void allow_without_bits(Program& program, long number, int index, uint32_t bits) {
  program.add(jump(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 4));
  load(program, argument(index));
  program.add(jump(BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0));
  program.add(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  program.add(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
}

// mmap of anonymous memory that cannot be executed.
void allow_anonymous_memory(Program& program) {
  program.add(jump(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)SYS_mmap, 0, 6));
  load(program, argument(2));
  program.add(jump(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 3, 0));
  load(program, argument(3));
  program.add(jump(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 1));
  program.add(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  program.add(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
}

int install(Program& program) {
  program.add(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  if (program.length > sizeof program.code / sizeof *program.code) {
    errno = E2BIG;
    return -1;
  }
  sock_fprog filter = {program.length, program.code};
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
}

}  // namespace

int optiml_fence_for_loading(int reply_fd) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  Program program;
  begin(program);
  allow_without_bits(program, SYS_openat, 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND);
  allow_if_equal(program, SYS_write, 0, (uint32_t)reply_fd);
  for (long number : {(long)SYS_read, (long)SYS_pread64, (long)SYS_fstat, (long)SYS_newfstatat,
                      (long)SYS_close, (long)SYS_lseek, (long)SYS_mmap, (long)SYS_mprotect, (long)SYS_munmap,
                      (long)SYS_madvise, (long)SYS_brk, (long)SYS_rt_sigaction, (long)SYS_rt_sigprocmask,
                      (long)SYS_sigaltstack, (long)SYS_futex, (long)SYS_seccomp, (long)SYS_getrandom,
                      (long)SYS_clock_gettime, (long)SYS_exit, (long)SYS_exit_group})
    allow(program, number);
  return install(program);
}

int optiml_fence_for_running(int request_fd, int reply_fd) {
  Program program;
  begin(program);
  allow_if_equal(program, SYS_read, 0, (uint32_t)request_fd);
  allow_if_equal(program, SYS_write, 0, (uint32_t)reply_fd);
  allow_anonymous_memory(program);
  allow_without_bits(program, SYS_mprotect, 2, PROT_EXEC);
  for (long number : {(long)SYS_munmap, (long)SYS_brk, (long)SYS_madvise, (long)SYS_futex, (long)SYS_clock_gettime,
                      (long)SYS_rt_sigreturn, (long)SYS_exit, (long)SYS_exit_group})
    allow(program, number);
  return install(program);
}
