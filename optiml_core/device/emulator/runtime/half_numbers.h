// half_numbers.h - 16-bit floating-point numbers as bits, for atomics and matrix instructions.
// The kernel's own arithmetic on them is in shim/half_bits.h, which this includes.
#pragma once
#include "../shim/half_bits.h"
