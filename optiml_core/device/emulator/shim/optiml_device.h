// optiml_device.h - lets g++ compile CUDA kernel source as plain C++. Precompiled, and included ahead
// of the kernel. Everything that touches the emulator's own state lives in the runtime, which is
// built without instrumentation, so that the only accesses seen by the hooks are the kernel's own.
#pragma once
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#define OPTIML_INLINE static inline __attribute__((always_inline))

#include "qualifiers.h"
#include "vector_types.h"
#include "builtins.h"
#include "collectives.h"
#include "atomics.h"
#include "math_functions.h"
#include "wide_functions.h"
#include "entry.h"
