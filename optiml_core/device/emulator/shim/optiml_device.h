// optiml_device.h - lets g++ compile CUDA kernel source as plain C++. Precompiled, and included ahead
// of the kernel. Everything that touches the emulator's own state lives in the runtime, which is
// built without instrumentation, so that the only accesses seen by the hooks are the kernel's own.
#pragma once
#include <array>
#include <bits/stl_algobase.h>
#include <bits/stl_function.h>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <math.h>
#include <tuple>
#include <type_traits>
#include <utility>

// Names that files open for their host code.
namespace std { namespace chrono {} namespace filesystem {} namespace this_thread {} namespace placeholders {} namespace string_literals {} }

#define OPTIML_INLINE static inline __attribute__((always_inline))

#include "qualifiers.h"
#include "vector_types.h"
#include "builtins.h"
#include "collectives.h"
#include "memory_functions.h"
#include "integer_functions.h"
#include "math_functions.h"
#include "approximate_functions.h"
#include "small_floats.h"
#include "small_float_functions.h"
#include "fp8.h"
#include "atomics.h"
#include "async_copies.h"
#include "cooperative_groups.h"
#include "group_functions.h"
#include "cuda_atomic.h"
#include "wmma.h"
#include "wide_functions.h"
