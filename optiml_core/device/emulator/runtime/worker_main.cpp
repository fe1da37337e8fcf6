// worker_main.cpp - the process in which a candidate runs: loads one object, fences itself in, answers requests.
//
// Started by worker.py as
//   worker OBJECT_FD ARENA_FD TILE_FD REQUEST_FD REPLY_FD ARENA_CAPACITY DATA_LIMIT PARENT_PID FENCED
// with an empty environment in an empty folder. It ends when its parent does, when a request pipe closes,
// or when the candidate does anything that the fence forbids.
#include <cerrno>
#include <initializer_list>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <ctime>
#include <ucontext.h>
#include <unistd.h>

#include "indirect_calls.h"
#include "interface.h"
#include "sandbox.h"
#include "wire.h"

namespace {

struct Worker {
  char* arena;
  uint64_t arena_capacity;
  char* reserved_area;
  uint64_t reserved_bytes;
  uintptr_t module_base;
  uint64_t module_bytes;
  OptimlEntry entry;
  int request_fd, reply_fd;
};
Worker worker;

OptimlWireRequest* request_of() { return (OptimlWireRequest*)worker.arena; }
OptimlWireReply* reply_of() { return (OptimlWireReply*)(worker.arena + OPTIML_REPLY); }

void say(uint32_t state, const char* text) {
  OptimlWireReply* reply = reply_of();
  reply->version = OPTIML_WIRE_VERSION;
  reply->state = state;
  size_t length = text ? strlen(text) : 0;
  if (length > 4000) length = 4000;
  reply->text = OPTIML_REPLY_TABLES;
  reply->text_bytes = length;
  if (length) memcpy(worker.arena + OPTIML_REPLY_TABLES, text, length);
  char byte = (char)state;
  while (write(worker.reply_fd, &byte, 1) < 0 && errno == EINTR) {
  }
}

[[noreturn]] void give_up(uint32_t state, const char* text) {
  say(state, text);
  _exit(3);
}

void on_signal(int signal, siginfo_t* information, void* context) {
  OptimlWireReply* reply = reply_of();
  const ucontext_t* machine = (const ucontext_t*)context;
#if defined(__x86_64__)
  uint64_t pc = (uint64_t)machine->uc_mcontext.gregs[REG_RIP];
  reply->crash_stack = (uint64_t)machine->uc_mcontext.gregs[REG_RSP];
#else
  uint64_t pc = (uint64_t)machine->uc_mcontext.pc;
  reply->crash_stack = (uint64_t)machine->uc_mcontext.sp;
#endif
  reply->signal = (uint32_t)signal;
  reply->crash_pc = pc;
  reply->crash_address = (uint64_t)(uintptr_t)information->si_addr;
  bool refused = optiml_is_refused_call(pc);
#if defined(__x86_64__)
  if (refused) reply->crash_pc = *(const uint64_t*)machine->uc_mcontext.gregs[REG_RSP];  // where the call returns to
#endif
  reply->crashed_in_candidate = reply->crash_pc - worker.module_base < worker.module_bytes;
  say(refused ? OPTIML_STATE_REFUSED_CALL : OPTIML_STATE_CRASHED, nullptr);
  _exit(4);
}

void catch_signals() {
  static char stack[64 << 10] __attribute__((aligned(16)));
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
  sigfillset(&action.sa_mask);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigaction(signal, &action, nullptr);
}

void limit(int what, uint64_t value) {
  struct rlimit both = {value, value};
  setrlimit((__rlimit_resource_t)what, &both);
}

bool inside(uint64_t offset, uint64_t bytes, uint64_t size) { return offset <= size && bytes <= size - offset; }

char* place(uint8_t origin, uint64_t offset, uint64_t bytes) {
  if (origin == OPTIML_IN_ARENA && inside(offset, bytes, worker.arena_capacity)) return worker.arena + offset;
  if (origin == OPTIML_IN_MODULE && inside(offset, bytes, worker.module_bytes)) return (char*)worker.module_base + offset;
  if (origin == OPTIML_IN_RESERVED && inside(offset, bytes, worker.reserved_bytes)) return worker.reserved_area + offset;
  return nullptr;
}

// Reserved address space for sampled runs at real sizes: pieces of a small file of random values mapped over and
// over (copy-on-write), or zeros. Only the pages that the kernel touches cost memory.
bool map_reserved(const OptimlWireRequest& request, int tile_fd) {
  if (!request.reserved_bytes) return true;
  void* area = mmap(nullptr, request.reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) return false;
  worker.reserved_area = (char*)area;
  worker.reserved_bytes = request.reserved_bytes;
  const OptimlWireReserved* pieces = (const OptimlWireReserved*)(worker.arena + request.reserved_pieces);
  for (uint64_t i = 0; i < request.reserved_count; i++) {
    const OptimlWireReserved& piece = pieces[i];
    if (!inside(piece.offset, piece.bytes, worker.reserved_bytes)) return false;
    char* start = worker.reserved_area + piece.offset;
    if (!piece.tile_bytes) {
      if (mmap(start, piece.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return false;
      continue;
    }
    for (uint64_t done = 0; done < piece.bytes; done += piece.tile_bytes) {
      uint64_t bytes = piece.bytes - done < piece.tile_bytes ? piece.bytes - done : piece.tile_bytes;
      if (mmap(start + done, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, tile_fd,
               (off_t)piece.tile_offset) == MAP_FAILED)
        return false;
    }
  }
  return true;
}

int measure_module(struct dl_phdr_info* information, size_t, void*) {
  if (information->dlpi_addr != worker.module_base) return 0;
  for (int i = 0; i < information->dlpi_phnum; i++) {
    const ElfW(Phdr)& header = information->dlpi_phdr[i];
    if (header.p_type == PT_LOAD && header.p_vaddr + header.p_memsz > worker.module_bytes)
      worker.module_bytes = header.p_vaddr + header.p_memsz;
  }
  return 1;
}

template <class Row>
uint64_t put(uint64_t& position, const Row* rows, uint64_t total, uint64_t* at) {
  position = (position + 15) & ~(uint64_t)15;
  uint64_t room = position < OPTIML_PAYLOAD ? (OPTIML_PAYLOAD - position) / sizeof(Row) : 0;
  uint64_t count = total < room ? total : room;
  if (count) memcpy(worker.arena + position, rows, count * sizeof(Row));
  *at = position;
  position += count * sizeof(Row);
  return count;
}

void fill_reply(int32_t status, uint64_t nanoseconds) {
  OptimlWireReply* reply = reply_of();
  const OptimlSite* sites;
  const OptimlReport* reports;
  const OptimlTraffic* traffic;
  const char* text;
  reply->site_total = optiml_emulator_sites(&sites);
  reply->report_total = optiml_emulator_reports(&reports);
  reply->traffic_total = optiml_emulator_traffic(&traffic);
  uint64_t text_bytes = optiml_emulator_output(&text);
  uint64_t position = OPTIML_REPLY_TABLES;
  reply->report_count = put(position, reports, reply->report_total, &reply->reports);
  reply->traffic_count = put(position, traffic, reply->traffic_total, &reply->traffic);
  reply->text_bytes = put(position, text, text_bytes, &reply->text);
  reply->site_count = put(position, sites, reply->site_total, &reply->sites);
  optiml_emulator_statistics(&reply->statistics);
  reply->cpu_nanoseconds = nanoseconds;
  reply->status = status;
}

uint64_t cpu_nanoseconds() {
  struct timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const char* run_request() {
  const OptimlWireRequest request = *request_of();
  if (request.version != OPTIML_WIRE_VERSION) return "another version of the wire";
  if (request.parameter_count > 256) return "more than 256 parameters";
  const OptimlWireParameter* parameters = (const OptimlWireParameter*)(worker.arena + request.parameters);
  const OptimlWireRange* ranges = (const OptimlWireRange*)(worker.arena + request.ranges);
  const OptimlWireCopy* fills = (const OptimlWireCopy*)(worker.arena + request.fills);
  const OptimlWireCopy* read_backs = (const OptimlWireCopy*)(worker.arena + request.read_backs);

  void* arguments[256];
  static void* pointers[256];
  for (uint64_t i = 0; i < request.parameter_count; i++) {
    char* where = place(parameters[i].is_pointer ? parameters[i].origin : (uint8_t)OPTIML_IN_ARENA, parameters[i].value_offset, 0);
    if (!where) return "an argument lies outside";
    pointers[i] = where;
    arguments[i] = parameters[i].is_pointer ? (void*)&pointers[i] : (void*)where;
  }
  optiml_emulator_reset();
  for (uint64_t i = 0; i < request.range_count; i++) {
    char* where = place(ranges[i].origin, ranges[i].offset, ranges[i].bytes);
    if (!where) return "a range lies outside";
    OptimlRange range = {};
    range.address = (uintptr_t)where;
    range.bytes = ranges[i].bytes;
    range.buffer = ranges[i].buffer;
    range.space = ranges[i].space;
    range.flags = ranges[i].flags;
    if (optiml_emulator_add_range(&range) != 0) return "two ranges overlap";
  }
  for (uint64_t i = 0; i < request.fill_count; i++) {
    char* to = place(OPTIML_IN_MODULE, fills[i].module_offset, fills[i].bytes);
    const char* from = place(OPTIML_IN_ARENA, fills[i].arena_offset, fills[i].bytes);
    if (!to || !from) return "a global lies outside";
    memcpy(to, from, fills[i].bytes);
  }
  OptimlOptions options = {};
  options.lockstep = request.lockstep;
  options.races = request.races;
  options.initialisation = request.initialisation;
  options.poison = request.poison;
  options.traffic = request.traffic;
  options.warp_stride = request.warp_stride;
  options.schedule = request.schedule;
  options.steps = request.steps;
  options.output_limit = request.output_limit;
  options.shared_limit = request.shared_limit;
  options.memory_limit = request.memory_limit;
  options.blocks = request.block_count ? (const uint32_t*)(worker.arena + request.blocks) : nullptr;
  options.block_count = request.block_count;
  uint64_t before = cpu_nanoseconds();
  int32_t status = optiml_emulator_launch(worker.entry, arguments, request.grid, request.block, request.dynamic_shared, &options);
  uint64_t after = cpu_nanoseconds();
  for (uint64_t i = 0; i < request.read_back_count; i++) {
    const char* from = place(OPTIML_IN_MODULE, read_backs[i].module_offset, read_backs[i].bytes);
    char* to = place(OPTIML_IN_ARENA, read_backs[i].arena_offset, read_backs[i].bytes);
    if (!to || !from) return "a global lies outside";
    memcpy(to, from, read_backs[i].bytes);
  }
  reply_of()->sequence = request.sequence;
  fill_reply(status, after - before);
  return nullptr;
}

// Started with one argument: does the fence hold here? Ends by SIGSYS if it does.
int probe() {
  if (optiml_fence_for_loading(1) != 0 || optiml_fence_for_running(0, 1) != 0) return 5;
  getppid();
  return 6;  // a forbidden call came back
}

}  // namespace

int main(int count, char** values) {
  if (count == 2 && !strcmp(values[1], "--probe")) return probe();
  if (count != 10) return 2;
  int object_fd = atoi(values[1]), arena_fd = atoi(values[2]), tile_fd = atoi(values[3]);
  worker.request_fd = atoi(values[4]);
  worker.reply_fd = atoi(values[5]);
  worker.arena_capacity = strtoull(values[6], nullptr, 10);
  uint64_t data_limit = strtoull(values[7], nullptr, 10);
  long parent = atol(values[8]);
  bool fenced = atoi(values[9]) != 0;

  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != parent) return 0;  // the parent ended before the line above
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_DATA, data_limit);

  // The whole capacity is address space only: the parent lets the file grow as it needs it.
  void* arena = mmap(nullptr, worker.arena_capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, arena_fd, 0);
  if (arena == MAP_FAILED) return 2;
  worker.arena = (char*)arena;
  close(arena_fd);
  if (!map_reserved(*request_of(), tile_fd)) give_up(OPTIML_STATE_BAD_REQUEST, "the reserved buffers could not be mapped");
  if (tile_fd >= 0) close(tile_fd);

  if (optiml_emulator_prepare(data_limit) != 0) give_up(OPTIML_STATE_BAD_REQUEST, "no address space for shadows and stacks");
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", object_fd);
  if (fenced && optiml_fence_for_loading(worker.reply_fd) != 0) give_up(OPTIML_STATE_NO_SANDBOX, strerror(errno));
  void* object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!object) give_up(OPTIML_STATE_NOT_LOADED, dlerror());
  worker.entry = (OptimlEntry)dlsym(object, "optiml_entry");
  struct link_map* map = nullptr;
  if (!worker.entry || dlinfo(object, RTLD_DI_LINKMAP, &map) != 0) give_up(OPTIML_STATE_NOT_LOADED, "no entry point");
  worker.module_base = map->l_addr;
  dl_iterate_phdr(measure_module, nullptr);
  close(object_fd);
  const OptimlWireRequest* start = request_of();
  optiml_allow_calls(worker.module_base, (const uint32_t*)(worker.arena + start->functions), start->function_count);
  catch_signals();
  if (fenced && optiml_fence_for_running(worker.request_fd, worker.reply_fd) != 0) give_up(OPTIML_STATE_NO_SANDBOX, strerror(errno));

  reply_of()->module_base = worker.module_base;
  say(OPTIML_STATE_READY, nullptr);
  for (;;) {
    char byte;
    ssize_t got = read(worker.request_fd, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got != 1) _exit(0);
    const char* problem = run_request();
    OptimlWireReply* reply = reply_of();
    if (problem) {
      say(OPTIML_STATE_BAD_REQUEST, problem);
      continue;
    }
    reply->version = OPTIML_WIRE_VERSION;
    reply->state = OPTIML_STATE_RAN;
    char answer = (char)OPTIML_STATE_RAN;
    while (write(worker.reply_fd, &answer, 1) < 0 && errno == EINTR) {
    }
  }
}
