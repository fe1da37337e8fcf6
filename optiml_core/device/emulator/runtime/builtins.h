// builtins.h - what the shim's built-in variables and functions call.
#pragma once
#include "hooks.h"

extern "C" Vector3 optiml_device_thread_index() { return E.current->index; }
extern "C" Vector3 optiml_device_block_index() { return E.block->index; }
extern "C" Vector3 optiml_device_block_dim() { return E.dim; }
extern "C" Vector3 optiml_device_grid_dim() { return E.grid; }
extern "C" int optiml_device_lane() { return E.current->number; }
extern "C" uint32_t optiml_device_thread() { return E.current->thread; }
extern "C" void* optiml_device_dynamic_shared() { return optiml_dynamic_shared; }
extern "C" uint64_t optiml_device_dynamic_shared_size() { return E.dynamic_shared; }
extern "C" void optiml_device_fence() { if (E.races) fence(E.current); }

extern "C" int optiml_device_barrier(uint32_t label, int operation, int value) {
  Lane* l = E.current;
  l->operation = (uint8_t)operation; l->value.low = value != 0; l->mask = label; l->pc = CALLER;
  l->warp->at_barrier |= 1u << l->number;
  run_next(l);
  return (int)l->result.low;
}
extern "C" Bits optiml_device_collective(int kind, uint32_t mask, Bits value, int argument, int width) {
  Lane* l = E.current;
  l->operation = (uint8_t)kind; l->mask = mask; l->value = value; l->argument = argument; l->width = width; l->pc = CALLER;
  l->warp->at_collective |= 1u << l->number;
  run_next(l);
  return l->result;
}

// A clock that is the same for the same seed: accesses and collectives so far.
extern "C" uint64_t optiml_device_clock() { return (E.statistics.accesses + E.statistics.collectives) * 4 + E.statistics.switches; }
extern "C" void optiml_device_sleep(uint32_t) { yield_lane(E.current); }

extern "C" void optiml_device_assert(uint32_t line) {
  if (auto* r = report_here(OPTIML_ASSERTION, CALLER)) r->detail = line;
  stop_launch(E.current);
}
extern "C" void optiml_device_trap() {
  report_here(OPTIML_TRAP, CALLER);
  stop_launch(E.current);
}
// -fsanitize=bounds: a fixed-size array is indexed outside. Of a local array that is a fault, and the
// lane ends before it does harm. A shared array may be indexed past a row's end, as long as
// the access stays inside the whole array, which the access itself is checked for; g++ gives no more than
// the row's type here, so an array whose rows fit into some shared array's size is left to that check.
struct SourceLocation { const char* file; uint32_t line, column; };
struct TypeDescriptor { uint16_t kind, info; char name[1]; };
struct OutOfBoundsData { SourceLocation location; TypeDescriptor *array, *index; };

// Elements of "'float [4][8]'"; 0 where it is no array.
static uint64_t elements_of(const char* name) {
  uint64_t n = 0;
  for (const char* p = strchr(name, '['); p; p = strchr(p + 1, '[')) n = (n ? n : 1) * strtoull(p + 1, nullptr, 10);
  return n;
}
extern "C" void __ubsan_handle_out_of_bounds(OutOfBoundsData* data, uintptr_t index) {
  uint64_t n = elements_of(data->array->name);
  for (auto& r : E.ranges)
    if (r.space == OPTIML_SHARED && n && index < r.high - r.low && (r.high - r.low) % n == 0) return;
  if (auto* r = report_here(OPTIML_LOCAL_INDEX, CALLER, data->location.line)) r->detail = (int64_t)index;
  end_lane(E.current);
}

// -fsanitize=float-cast-overflow, shift-exponent: this machine's result is not a GPU's, which saturates casts and
// shifts everything out. The lane goes on: originals may rely on what a GPU does.
extern "C" void __ubsan_handle_float_cast_overflow(void*, uintptr_t) {
  if (auto* r = report_here(OPTIML_UNDEFINED_NUMBER, CALLER)) r->detail = 1;
}
extern "C" void __ubsan_handle_shift_out_of_bounds(void*, uintptr_t, uintptr_t) {
  if (auto* r = report_here(OPTIML_UNDEFINED_NUMBER, CALLER)) r->detail = 2;
}

// ---- printf: the format is walked here; a candidate's text never reaches the C library as a format ----
struct PrintArgument { uint64_t bits; double number; uint32_t kind; };  // kind: 0 integer, 1 floating, 2 pointer or string

static void put(const char* text, size_t n) {
  uint64_t limit = E.options.output_limit ? E.options.output_limit : 64 << 10;
  limit = std::min<uint64_t>(limit, E.output.capacity());
  size_t keep = std::min<uint64_t>(n, limit - std::min<uint64_t>(limit, E.output.size()));
  E.output.insert(E.output.end(), text, text + keep);
  E.statistics.output_bytes += keep;
  E.statistics.output_dropped += n - keep;
}

extern "C" int optiml_device_printf(const char* format, const PrintArgument* arguments, uint32_t count) {
  uint32_t next = 0;
  for (const char* p = format; *p;) {
    if (*p != '%') {
      size_t n = strcspn(p, "%");
      put(p, n);
      p += n;
      continue;
    }
    if (p[1] == '%') { put("%", 1); p += 2; continue; }
    char spec[24] = "%"; size_t n = 1; bool wide = false;
    for (++p; *p && strchr("-+ #0123456789.hlLzjt", *p); ++p) {
      if (strchr("hlLzjt", *p)) wide |= *p != 'h'; else if (n < 16) spec[n++] = *p;
    }
    char kind = *p;
    if (!kind) break;
    ++p;
    if (next >= count) continue;
    PrintArgument a = arguments[next++];
    char text[400]; int length = 0;
    if (strchr("diuxXoc", kind)) {
      bool is_signed = kind == 'd' || kind == 'i';
      long long v = wide ? (long long)a.bits : is_signed ? (long long)(int)a.bits : (long long)(unsigned)a.bits;
      if (kind == 'c') { spec[n++] = 'c'; length = snprintf(text, sizeof text, spec, (int)a.bits); }
      else { spec[n++] = 'l'; spec[n++] = 'l'; spec[n++] = kind; length = snprintf(text, sizeof text, spec, v); }
    } else if (strchr("eEfFgGaA", kind)) {
      spec[n++] = kind;
      length = snprintf(text, sizeof text, spec, a.number);
    } else if (kind == 'p') {
      length = snprintf(text, sizeof text, "%p", (void*)a.bits);
    } else if (kind == 's' && a.bits) {
      put((const char*)a.bits, strnlen((const char*)a.bits, 1024));
    }
    if (length > 0) put(text, std::min<size_t>(length, sizeof text - 1));
  }
  return (int)count;
}
