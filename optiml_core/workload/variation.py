"""Other sizes and scalars for the same workload: what verification runs besides the declared values."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from optiml_core.records import BufferArgument, Failure, Kernel, Launch
from optiml_core.workload.elements import is_float
from optiml_core.workload.expression import Value, evaluate, names_in
from optiml_core.workload.items import Buffer, Item, Requirement, Scalar, Shape, SharedMemory, names_of_item
from optiml_core.workload.launches import resolve_launch
from optiml_core.workload.record import Workload

# What one varied launch may cost, so that an emulator runs it in a fraction of a second.
LARGEST_ELEMENTS = 1 << 19
LARGEST_THREADS = 1 << 18
MOST_VARIATIONS = 24

# Where a `require` refuses a value, these multiples of it are tried next.
_MULTIPLES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 3, 5, 6, 12, 24, 48)


def size_variations(workload: Workload, seed: int) -> tuple[Mapping[str, Value], ...]:
    """Overrides for ``resolve_launch(workload, 0, ...)``, the most telling first.

    The declared sizes if they are small; odd sizes (primes, which no block divides); sizes that the block divides;
    all 1; each size alone long (over several blocks) and alone 1; then each other scalar at 0, 1 and -1. ``require``
    holds in all of them.
    At most ``LARGEST_ELEMENTS`` elements and ``LARGEST_THREADS`` threads each, as far as the workload lets sizes
    shrink: lengths or grids that are plain numbers do not, and are kept. Deterministic for a seed.
    """
    sizes = _free_names(workload, workload.sizes)
    values = _values_of(workload, sizes)
    generator = random.Random(seed)
    threads = _threads(workload)
    shapes = [{}, *_shapes(sizes, threads, generator)] if sizes else [{}]
    chosen: list[Mapping[str, Value]] = []
    costly: list[tuple[int, Mapping[str, Value]]] = []
    for shape in shapes:
        fitted = _fitted(workload, shape, values, generator)
        if fitted is None or fitted in chosen:
            continue
        cost = _cost(resolve_launch(workload, 0, fitted))
        if cost <= 1:
            chosen.append(fitted)
        else:
            costly.append((int(cost * 1000), fitted))
    if not chosen:
        # Nothing shrinks: the cheapest there are, rather than nothing at all.
        chosen = [shape for _, shape in sorted(costly, key=lambda one: one[0])[:4]]
    base = chosen[0] if chosen else {}
    for name, value in _scalar_values(workload):
        varied = {**base, name: value}
        if varied not in chosen and isinstance(resolve_launch(workload, 0, varied), Launch):
            chosen.append(varied)
    return tuple(chosen[:MOST_VARIATIONS])


def _cost(launch: Launch | Failure) -> float:
    """At most 1 for a launch that is small enough."""
    if isinstance(launch, Failure):
        return float("inf")
    elements = sum(one.length * one.element.lanes for one in launch.arguments if isinstance(one, BufferArgument))
    threads = 1
    for extent in (*launch.grid, *launch.block):
        threads *= extent
    return max(elements / LARGEST_ELEMENTS, threads / LARGEST_THREADS)


def _threads(workload: Workload) -> int:
    launch = resolve_launch(workload)
    return 256 if isinstance(launch, Failure) else launch.block[0] * launch.block[1] * launch.block[2]


# -------------------------------------------------------------------------------------- shapes


def _shapes(sizes: Sequence[str], threads: int, generator: random.Random) -> Iterator[dict[str, int]]:
    """Shapes by the number of sizes: their product stays near some ten thousand whatever their number."""
    count = len(sizes)
    if count == 1:
        near, friendly, long = max(threads + threads // 2, 48), 2 * max(threads, 32), 5 * max(threads, 32)
    else:
        near = {2: 72, 3: 36, 4: 14}.get(count, 7)
        friendly = {2: 64, 3: 32, 4: 16}.get(count, 8)
        long = {2: 2 * threads, 3: min(2 * threads, 520), 4: min(2 * threads, 264)}.get(count, 70)
    odd = _primes_near(near, count, generator)
    yield dict(zip(sizes, odd, strict=True))
    yield {name: friendly * (1 + position % 3) for position, name in enumerate(sizes)}
    yield dict.fromkeys(sizes, 1)
    small = {1: 1, 2: 3, 3: 3}.get(count, 2)
    for position, name in enumerate(sizes):
        shape = {other: small + 2 * (index % 2) for index, other in enumerate(sizes)}
        yield {**shape, name: _primes_near(long + 3 + position, 1, generator)[0]}
    if count > 1:
        for name in sizes:
            yield {**dict(zip(sizes, odd, strict=True)), name: 1}


def _primes_near(target: int, count: int, generator: random.Random) -> list[int]:
    """``count`` distinct odd primes around ``target``, which ones depends on the generator."""
    low, high = max(3, target * 3 // 4), max(target * 3 // 2, 7 + 8 * count)
    primes = [number for number in range(low | 1, high + 1, 2) if _is_prime(number)]
    while len(primes) < count:
        high = high * 2 + 8
        primes = [number for number in range(low | 1, high + 1, 2) if _is_prime(number)]
    return generator.sample(primes, count)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def _fitted(
    workload: Workload, shape: Mapping[str, int], declared: Mapping[str, int], generator: random.Random
) -> Mapping[str, Value] | None:
    """The shape itself, or the nearest one found for which every requirement holds and a launch exists."""
    capped = {name: min(value, _limit(workload, name, declared[name], value)) for name, value in shape.items()}
    for candidate in _candidates(capped, declared, generator):
        if isinstance(resolve_launch(workload, 0, candidate), Launch):
            return candidate
    return None


def _candidates(
    shape: Mapping[str, int], declared: Mapping[str, int], generator: random.Random
) -> Iterator[dict[str, int]]:
    yield dict(shape)
    if not shape:
        return
    for multiple in _MULTIPLES:
        yield {name: -(-value // multiple) * multiple for name, value in shape.items()}
    # Only one size may be under the requirement: the others keep their odd values.
    for name, value in shape.items():
        for multiple in _MULTIPLES:
            yield {**shape, name: -(-value // multiple) * multiple}
    for name in shape:
        yield {**shape, name: declared[name]}
    yield dict.fromkeys(shape, max(shape.values()))
    yield dict.fromkeys(shape, 1 << (max(shape.values()) - 1).bit_length())
    for _ in range(100):
        yield {name: generator.randint(1, max(2 * value, 64)) for name, value in shape.items()}


def _limit(workload: Workload, name: str, declared: int, value: int) -> int:
    """A size that no buffer's length follows must not grow: the buffers would be too short."""
    follows = any(
        isinstance(item, Buffer) and item.length is not None and name in _reached(workload.items, names_in(item.length))
        for item in workload.items
    )
    return value if follows else max(declared, 1)


# ------------------------------------------------------------------------------------ the names


def size_names(kernel: Kernel, items: Sequence[Item], body: str, fixed: Iterable[str] = ()) -> tuple[str, ...]:
    """The scalars that act as sizes: those behind lengths and index contents, arguments behind the grid and shared
    memory, and whole-number arguments that the kernel's body compares something with. Names behind the block's shape
    and ``fixed`` are not.
    """
    own = frozenset(parameter.name for parameter in kernel.parameters)
    wanted: frozenset[str] = frozenset()
    for item in items:
        if isinstance(item, Buffer):
            wanted |= _reached(items, names_of_item(item))
        elif isinstance(item, SharedMemory) or (isinstance(item, Shape) and item.name == "grid"):
            # A helper name behind the shape alone is a tile or a number of blocks, no size of the problem.
            wanted |= _reached(items, names_of_item(item)) & own
    for parameter in kernel.parameters:
        whole = parameter.element is not None and parameter.element.dtype.strip("u").startswith("int")
        if not parameter.is_pointer and whole and _is_bound(parameter.name, body):
            wanted |= _reached(items, frozenset((parameter.name,)))
    kept = wanted - _block_names(items) - frozenset(fixed)
    return tuple(item.name for item in items if isinstance(item, Scalar) and item.name in kept)


def _is_bound(name: str, body: str) -> bool:
    """Whether the body has the name on the larger side of a comparison."""
    word = re.escape(name)
    pattern = rf"(?<!<)<=?(?![<=])[^;,&|?<>]*\b{word}\b|\b{word}\b[^;,&|?<>]*(?<![->])>=?(?!>)"
    return re.search(pattern, body) is not None


def _block_names(items: Sequence[Item]) -> frozenset[str]:
    """Helper names behind the block's shape; scalar sizes behind it stay free."""
    reached: frozenset[str] = frozenset()
    for item in items:
        if isinstance(item, Shape) and item.name == "block":
            reached |= _reached(items, names_of_item(item))
    return reached


def _reached(items: Sequence[Item], names: frozenset[str]) -> frozenset[str]:
    """The names and all that their values are computed from."""
    values = {item.name: item.value for item in items if isinstance(item, Scalar)}
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(names_in(values[name]) if name in values else ())
    return frozenset(reached)


def _free_names(workload: Workload, names: Iterable[str]) -> list[str]:
    """The names whose value is a plain number: the others follow them."""
    values = {item.name: item.value for item in workload.items if isinstance(item, Scalar)}
    return [name for name in names if name in values and not names_in(values[name])]


def _values_of(workload: Workload, names: Iterable[str]) -> dict[str, int]:
    values = {item.name: item.value for item in workload.items if isinstance(item, Scalar)}
    found: dict[str, int] = {}
    for name in names:
        value = evaluate(values[name], {})
        found[name] = 1 if isinstance(value, Failure) else int(value)
    return found


def _scalar_values(workload: Workload) -> Iterator[tuple[str, Value]]:
    """0, 1 and -1 for each scalar argument that is no size; resolving refuses what its type cannot hold."""
    required = frozenset().union(*(names_of_item(item) for item in workload.items if isinstance(item, Requirement)))
    parameters = {one.name: one for one in workload.kernel.parameters if not one.is_pointer}
    left_alone = set(workload.sizes) | workload.fixed | _block_names(workload.items)
    for name in _free_names(workload, [item.name for item in workload.items if isinstance(item, Scalar)]):
        parameter = parameters.get(name.split(".")[0])
        if parameter is None or name in left_alone:
            continue
        element = parameter.element
        as_float = element is not None and is_float(element.dtype)
        values: tuple[Value, ...] = (0.0, 1.0, -1.0) if as_float else (0, 1, -1)
        if element is not None and element.dtype == "bool":
            values = (0, 1)
        if name in required and not as_float:
            values = (1,)
        for value in values:
            yield name, value
