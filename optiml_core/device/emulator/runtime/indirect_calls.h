// indirect_calls.h - a candidate calls through an address only if a function of its own starts there.
#pragma once
#include <cstdint>

// Makes the functions at `base + starts[i]` the only targets of indirect calls. Nothing is allowed before that.
// x86-64 only: elsewhere the compiler cannot route such calls through us, and this does nothing.
void optiml_allow_calls(uintptr_t base, const uint32_t* starts, uint64_t count);
// True if `pc` is where a call to anything else was stopped.
bool optiml_is_refused_call(uint64_t pc);
