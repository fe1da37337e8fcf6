"""The contents of a launch's buffers, deterministic for a seed.

Every buffer has its own stream of Philox, a counter-based generator (Salmon et al., "Parallel random numbers:
as easy as 1, 2, 3", SC 2011), keyed by the seed, the buffer's name and the value family: adding a parameter to a
kernel does not change what the others hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from optiml_core.records import Argument, BufferArgument, BufferContent, ElementType, Failure, Launch, ScalarArgument
from optiml_core.workload.elements import element_dtype, float_facts, is_float, scalar_dtype, widened_dtype
from optiml_core.workload.families import OUTSIDE_FAMILIES, VALUE_FAMILIES, of_family

Array = npt.NDArray[np.generic]

LARGEST_BYTES = 16 << 30


def make_contents(
    launch: Launch, seed: int, family: str = "declared", widened: bool = False, constants: tuple[float, ...] = ()
) -> dict[str, Array] | Failure:
    """The arrays of a launch's pointer arguments and globals, by name, in their order.

    Shape ``(length,)``, or ``(length, lanes)`` for vector types; structured for structs; bfloat16 and fp8 by
    ml_dtypes. ``family`` is one of ``VALUE_FAMILIES``. ``widened``: float32 becomes float64, float64 long double,
    narrower floats float64, after drawing in the narrow type, so that both see the same values. Outputs
    (content ``poison``) are filled with bytes 0xFF: NaN in every float type, -1 or the largest value as integer.
    ``constants`` are numbers that the family "thresholds" goes around, besides the launch's own scalars.
    """
    if family not in VALUE_FAMILIES:
        return Failure("bad-input", f"unknown value family `{family}`", cure=f"one of {', '.join(VALUE_FAMILIES)}")
    buffers = [one for one in (*launch.arguments, *launch.globals) if isinstance(one, BufferArgument)]
    total = sum(buffer.length * buffer.element.size for buffer in buffers) * (2 if widened else 1)
    if total > LARGEST_BYTES:
        return Failure("out-of-memory", f"the buffers need {total} bytes; at most {LARGEST_BYTES} are made")
    scalars = [
        float(one.value)
        for one in launch.arguments
        if isinstance(one, ScalarArgument) and isinstance(one.value, int | float)
    ]
    constants = tuple(dict.fromkeys((*constants, *scalars)))
    arrays: dict[str, Array] = {}
    for buffer in buffers:
        array = buffer_contents(buffer, seed, family, constants)
        if isinstance(array, Failure):
            return array
        arrays[buffer.name] = widen(array, buffer.element) if widened else array
    return arrays


def generator(seed: int, name: str, family: str) -> np.random.Generator:
    """The random stream of one buffer. The key is a hash, so that near seeds give unrelated streams."""
    digest = hashlib.sha256(f"{seed}\0{name}\0{family}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))


def buffer_contents(
    buffer: BufferArgument, seed: int, family: str = "declared", constants: tuple[float, ...] = ()
) -> Array | Failure:
    """The contents of one buffer in its own (narrow) element type."""
    element = buffer.element
    shape = (buffer.length,) if element.lanes == 1 else (buffer.length, element.lanes)
    dtype = np.dtype(element_dtype(element))
    array: Array = np.zeros(shape, dtype)
    if buffer.content.kind == "poison":
        if array.size:
            array.reshape(-1).view(np.uint8)[:] = 0xFF
        return array
    problem = _fill(array, element, buffer.content, seed, buffer.name, family, constants)
    return problem or array


def _fill(
    array: Array,
    element: ElementType,
    content: BufferContent,
    seed: int,
    name: str,
    family: str,
    constants: tuple[float, ...],
) -> Failure | None:
    if element.fields:
        for one in element.fields:
            part = _member(array, one.name)
            problem = _fill(part, one.element, content, seed, f"{name}.{one.name}", family, constants)
            if problem is not None:
                return problem
        return None
    drawn = draw(content, element.dtype, array.size, seed, name, family, constants)
    if isinstance(drawn, Failure):
        return drawn
    array[...] = drawn.reshape(array.shape)
    return None


def _member(array: Array, name: str) -> Array:
    """A view of one member of a structured array."""
    member: Array = array[name]  # type: ignore[call-overload]
    return member


def draw(
    content: BufferContent,
    dtype: str,
    count: int,
    seed: int,
    name: str,
    family: str,
    constants: tuple[float, ...] = (),
) -> Array | Failure:
    """``count`` values of one scalar type: drawn as declared, then moved into the family."""
    stream = generator(seed, name, "declared")
    low, high = _integer_range(dtype)
    kind, parameters = content.kind, content.parameters
    if kind in ("index", "permutation", "offsets"):
        n = int(parameters[0])
        problem = _index_problem(kind, name, n, count, dtype, high)
        if problem is not None:
            return problem
        values: Array = _indexes(kind, n, count, stream, family, generator(seed, name, family))
        values = values.astype(scalar_dtype(dtype))
        if kind == "index" and family in (*OUTSIDE_FAMILIES, "thresholds"):
            return of_family(values, content, dtype, family, generator(seed, name, family), constants)
        return values
    if is_float(dtype):
        values = _floats(kind, parameters, dtype, count, stream)
    else:
        values = _integers(kind, parameters, dtype, count, stream, low, high)
    if family == "declared":
        return values
    return of_family(values, content, dtype, family, generator(seed, name, family), constants)


def _integer_range(dtype: str) -> tuple[int, int]:
    if is_float(dtype):
        return 0, _largest_exact(dtype)
    if dtype == "bool":
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _largest_exact(dtype: str) -> int:
    """The largest integer up to which a float type holds all integers."""
    return 1 << (int(float_facts(dtype).nmant) + 1)


# ------------------------------------------------------------------------------------- floats


def _floats(kind: str, parameters: tuple[float, ...], dtype: str, count: int, stream: np.random.Generator) -> Array:
    narrow = scalar_dtype(dtype)
    # The narrower types are drawn in float32 and rounded once.
    drawn = np.float64 if dtype == "float64" else np.float32
    if kind == "zeros":
        return np.zeros(count, narrow)
    if kind == "constant":
        return np.full(count, parameters[0], np.float64).astype(narrow)
    if kind == "ramp":
        # It starts again where the type no longer holds every integer.
        return (np.arange(count) % _largest_exact(dtype)).astype(np.float64).astype(narrow)
    if kind == "uniform":
        low, high = parameters or (0.0, 1.0)
        values: Array = stream.random(count, dtype=drawn) * drawn(high - low) + drawn(low)
    else:
        mean, deviation = parameters if kind == "normal" and parameters else (0.0, 1.0)
        values = stream.standard_normal(count, dtype=drawn) * drawn(deviation) + drawn(mean)
    values = values.astype(narrow)
    if kind == "sorted":
        values = values.astype(drawn)
        values.sort()
        values = values.astype(narrow)
    return values


# ----------------------------------------------------------------------------------- integers


def _integers(
    kind: str,
    parameters: tuple[float, ...],
    dtype: str,
    count: int,
    stream: np.random.Generator,
    low: int,
    high: int,
) -> Array:
    narrow = scalar_dtype(dtype)
    if kind == "zeros":
        return np.zeros(count, narrow)
    if kind == "constant":
        return np.full(count, min(max(int(parameters[0]), low), high), narrow)
    if kind == "ramp":
        return (np.arange(count, dtype=np.int64) % min(high + 1, 1 << 62)).astype(narrow)
    if kind == "normal":
        mean, deviation = parameters or (0.0, 10.0)
        values = np.rint(stream.standard_normal(count) * deviation + mean)
        return np.clip(values, max(low, -(2.0**53)), min(high, 2.0**53)).astype(narrow)
    if kind == "sorted":
        return np.sort(stream.integers(0, min(max(count, 2), high + 1), count)).astype(narrow)
    start, stop = (int(parameters[0]), int(parameters[1])) if parameters else (0, 100)
    start, stop = max(start, low), min(stop, high + 1)
    return stream.integers(start, max(stop, start + 1), count, dtype=np.int64 if stop < 1 << 62 else np.uint64).astype(
        narrow
    )


def _index_problem(kind: str, name: str, n: int, count: int, dtype: str, high: int) -> Failure | None:
    largest = n if kind == "offsets" else n - 1
    if n < 1 and not (kind == "offsets" and n == 0) and count:
        return Failure("bad-input", f"`{name}`: {kind}({n}) has no valid value")
    if largest > high:
        return Failure("bad-input", f"`{name}`: {kind}({n}) does not fit the type {dtype}")
    return None


def _indexes(
    kind: str,
    n: int,
    count: int,
    stream: np.random.Generator,
    family: str,
    of_the_family: np.random.Generator,
) -> npt.NDArray[np.int64]:
    """Values that stay valid as indexes in every family but ``OUTSIDE_FAMILIES``; others change which and how often."""
    if count == 0:
        return np.zeros(0, np.int64)
    if kind == "index":
        if family == "duplicates":
            return stream.integers(0, n, 3)[stream.choice(3, count, p=(0.7, 0.2, 0.1))]
        if family == "special values":
            return stream.choice(np.array([0, n - 1], np.int64), count)
        if family == "large range":
            spread = np.minimum(np.exp(stream.random(count) * np.log(n)), n - 1)
            return np.asarray(spread, np.int64)
        return stream.integers(0, n, count)
    if kind == "permutation":
        if family == "special values":
            order = np.arange(n)[::-1]
        elif family == "duplicates":
            order = np.arange(n)
        else:
            order = (stream if family == "declared" else of_the_family).permutation(n)
        return np.resize(order, count)
    if family == "special values":
        # Everything in one row, the others empty.
        row = int(stream.integers(1, count)) if count > 1 else 0
        offsets = np.where(np.arange(count) >= row, n, 0)
    elif family == "duplicates":
        # Long runs of equal offsets: most rows are empty.
        offsets = np.sort(stream.choice(stream.integers(0, n + 1, 3), count))
    else:
        offsets = np.sort((stream if family == "declared" else of_the_family).integers(0, n + 1, count))
    if count > 1:
        offsets[0] = 0
    offsets[-1] = n
    return offsets.astype(np.int64)


# ------------------------------------------------------------------------------------ widening


def widen(array: Array, element: ElementType) -> Array:
    """The same values in the wider type (see ``make_contents``)."""
    if not element.fields:
        return array.astype(widened_dtype(element.dtype)) if is_float(element.dtype) else array
    wide: Array = np.zeros(array.shape, np.dtype(element_dtype(element, widened=True)))
    for one in element.fields:
        _member(wide, one.name)[...] = widen(_member(array, one.name), one.element)
    return wide


def narrowed(arrays: Mapping[str, Array], arguments: tuple[Argument, ...]) -> dict[str, Array]:
    """The opposite of widening, by rounding once: what a widened run left behind, in the buffers' own types."""
    elements = {one.name: one.element for one in arguments if isinstance(one, BufferArgument)}
    return {
        name: array.astype(np.dtype(element_dtype(elements[name]))) if name in elements else array
        for name, array in arrays.items()
    }
