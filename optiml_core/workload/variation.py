"""Other sizes and scalars for the same workload: what verification runs besides the declared values."""

from __future__ import annotations

import itertools
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
LARGEST_THREADS = 1 << 19
MOST_VARIATIONS = 40
# The share of that which a single further size may cost where others are free to be smaller.
MODEST_COST = 1 / 8

# Where a `require` refuses a value, these multiples of it are tried next.
_MULTIPLES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 3, 5, 6, 12, 24, 48)


def size_variations(workload: Workload, seed: int) -> tuple[Mapping[str, Value], ...]:
    """Overrides for ``resolve_launch(workload, 0, ...)``, the most telling first.

    The declared sizes if they are small; odd sizes (primes, which no block divides); sizes that the block divides;
    all 1; each size alone long (over several blocks) and alone 1; then each other scalar at 0, 1, -1, other small
    values and a large one. ``require`` holds in all of them.
    At most ``LARGEST_ELEMENTS`` elements and ``LARGEST_THREADS`` threads each, as far as the workload lets sizes
    shrink: lengths or grids that are plain numbers do not, and are kept. Deterministic for a seed.
    """
    sizes = _free_names(workload, workload.sizes)
    values = _values_of(workload, sizes)
    generator = random.Random(seed)
    threads = _threads(workload)
    growth = _growth(workload, sizes[0], values[sizes[0]]) if len(sizes) == 1 else 1.0
    shapes = [{}, *_shapes(values, threads, generator, growth)] if sizes else [{}]
    fitted: list[tuple[float, Mapping[str, Value]]] = []
    for shape in shapes:
        for divisor in (1, 2, 4, 8, 16, 32):
            smaller = {name: max(1, -(-value // divisor)) for name, value in shape.items()}
            candidate = _fitted(workload, smaller, values, generator)
            cost = float("inf") if candidate is None else _cost(resolve_launch(workload, 0, candidate))
            if candidate is not None and candidate not in [known for _, known in fitted]:
                fitted.append((cost, candidate))
            if cost <= 1 or not shape:
                break
    # Where nothing shrinks enough, the cheapest there are, rather than nothing at all.
    limit = max([1.0, *sorted(cost for cost, _ in fitted)[3:4]]) if not any(cost <= 1 for cost, _ in fitted) else 1.0
    chosen: list[Mapping[str, Value]] = [shape for cost, shape in fitted if cost <= limit]
    base = chosen[0] if chosen else {}
    for name, value in _scalar_values(workload):
        varied = {**base, name: value}
        if varied not in chosen and isinstance(resolve_launch(workload, 0, varied), Launch):
            chosen.append(varied)
    return tuple(chosen[:MOST_VARIATIONS])


def larger_sizes(workload: Workload) -> tuple[Mapping[str, Value], ...]:
    """Overrides with each size alone at several times what is declared, where that is small enough to be run: a
    candidate may have made the declared value its limit. The original may not be meant for such sizes."""
    sizes = _free_names(workload, workload.sizes)
    found: list[Mapping[str, Value]] = []
    for name, declared in _values_of(workload, sizes).items():
        tried = (with_size(workload, name, _next_prime(factor * declared + 1)) for factor in (4, 2))
        larger = next((one for one in tried if one is not None), None)
        if larger is not None and larger not in found:
            found.append(larger)
    return tuple(found)


def with_size(workload: Workload, name: str, value: int) -> Mapping[str, Value] | None:
    """Overrides with a size at a value (or the next one that ``require`` allows) and the other sizes as declared, or
    the same number of times smaller; None where no launch has it, or none that is small enough to be run. Buffers whose
    length does not follow may be too short: then the original misbehaves there."""
    sizes = _free_names(workload, workload.sizes)
    if name not in sizes or value < 1:
        return None
    declared = {other: number for other, number in _values_of(workload, sizes).items() if other != name}
    smallest = {other: min(number, 3) for other, number in declared.items()}
    tried: list[dict[str, int]] = []
    for power in range(20):
        others = {other: max(number >> power, smallest[other]) for other, number in declared.items()}
        if others not in tried:
            tried.append(others)
    affordable: Mapping[str, Value] | None = None
    for others in tried:
        found = _nearest(workload, name, value, others)
        cost = float("inf") if found is None else _cost(resolve_launch(workload, 0, found))
        if cost <= MODEST_COST:
            return found
        affordable = found if cost <= 1 else affordable
    return affordable


def _nearest(workload: Workload, name: str, value: int, others: Mapping[str, int]) -> Mapping[str, Value] | None:
    """The first launch at or above the value and the others, rounded up to what ``require`` may ask for."""
    for of_others, multiple in itertools.product((1, *_MULTIPLES), (1, *_MULTIPLES)):
        if multiple in (1, of_others) or of_others == 1:
            candidate = {other: -(-number // of_others) * of_others for other, number in others.items()}
            candidate[name] = -(-value // multiple) * multiple
            if isinstance(resolve_launch(workload, 0, candidate), Launch):
                return candidate
    return None


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


def _growth(workload: Workload, name: str, declared: int) -> float:
    """How many times the elements multiply where a size doubles: 4 for the side of a square."""
    lengths = []
    for size in (64, 128):
        launch = resolve_launch(workload, 0, {name: size})
        if isinstance(launch, Failure) or declared < 128:
            return 1.0
        lengths.append(sum(one.length for one in launch.arguments if isinstance(one, BufferArgument)))
    return lengths[1] / max(lengths[0], 1)


def _shapes(
    sizes: Mapping[str, int], threads: int, generator: random.Random, growth: float
) -> Iterator[dict[str, int]]:
    """Shapes by the number of sizes: their product stays near some ten thousand whatever their number.

    ``sizes``: the declared values; ``growth``: of the elements with the only size. A size
    that is small when declared (the width of a filter, the dimension of a head) stays near that: kernels have arrays of
    such extents.
    """
    count = len(sizes)
    if count == 1:
        near, friendly, long = max(threads + threads // 2, 48), 2 * max(threads, 32), 5 * max(threads, 32)
        if growth > 3:
            # The side of a square or cube: its work may grow faster still, and two tiles of 64 are several blocks.
            near, friendly, long = (72, 128, 130) if growth < 6 else (36, 32, 64)
    else:
        near = {2: 72, 3: 36, 4: 14}.get(count, 7)
        friendly = {2: 64, 3: 32, 4: 16}.get(count, 8)
        long = {2: 2 * threads, 3: min(2 * threads, 520), 4: min(2 * threads, 264)}.get(count, 70)
    odd = _odd_sizes(sizes, near, generator)
    yield odd
    yield {
        name: min(friendly * (1 + position % 3), _power_below(declared))
        for position, (name, declared) in enumerate(sizes.items())
    }
    yield dict.fromkeys(sizes, 1)
    small = {1: 1, 2: 3, 3: 3}.get(count, 2)
    for position, (name, declared) in enumerate(sizes.items()):
        shape = {other: min(small + 2 * (index % 2), sizes[other]) for index, other in enumerate(sizes)}
        wanted = long + 3 + position if declared > 64 else declared + 2
        yield {**shape, name: _primes_near(wanted, 1, generator)[0]}
    if count > 1:
        for name in sizes:
            yield {**odd, name: 1}


def _odd_sizes(sizes: Mapping[str, int], near: int, generator: random.Random) -> dict[str, int]:
    """A prime for each size, distinct where the declared values leave room."""
    primes = _primes_near(near, len(sizes), generator)
    chosen = {}
    for (name, declared), prime in zip(sizes.items(), primes, strict=True):
        below = [number for number in range(2, declared) if _is_prime(number)] if declared <= prime else []
        chosen[name] = below[-1 - generator.randrange(min(2, len(below)))] if below else min(prime, max(declared, 1))
    return chosen


def _power_below(number: int) -> int:
    """The largest power of two that is not above a number."""
    return 1 << (max(number, 1).bit_length() - 1)


def _primes_near(target: int, count: int, generator: random.Random) -> list[int]:
    """``count`` distinct odd primes around ``target``, which ones depends on the generator."""
    low, high = max(3, target * 3 // 4), max(target * 3 // 2, 7 + 8 * count)
    if target < 64:
        low, high = max(3, target - 1), target + 12 + 8 * count
    primes = [number for number in range(low | 1, high + 1, 2) if _is_prime(number)]
    while len(primes) < count:
        high = high * 2 + 8
        primes = [number for number in range(low | 1, high + 1, 2) if _is_prime(number)]
    return generator.sample(primes, count) if count > 1 or target >= 64 else primes[:1]


def _next_prime(number: int) -> int:
    while not _is_prime(number):
        number += 1
    return number


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
    # Only one size may be under the requirement: the others keep their odd values.
    for name, value in shape.items():
        for multiple in _MULTIPLES:
            yield {**shape, name: -(-value // multiple) * multiple}
    for value in shape.values():
        yield dict.fromkeys(shape, value)
    for multiple in _MULTIPLES:
        yield {name: -(-value // multiple) * multiple for name, value in shape.items()}
    for name in shape:
        yield {**shape, name: declared[name]}
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
    """The scalars that act as sizes: arguments behind lengths, index contents, the grid and shared memory, helper names
    behind both lengths and the grid, and whole-number arguments that the kernel's body compares something with. Names
    behind the block's shape and ``fixed`` are not.
    """
    own = frozenset(parameter.name for parameter in kernel.parameters)
    lengths: frozenset[str] = frozenset()
    grid: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    for item in items:
        if isinstance(item, Buffer):
            lengths |= _reached(items, names_of_item(item))
        elif isinstance(item, SharedMemory):
            shared |= _reached(items, names_of_item(item))
        elif isinstance(item, Shape) and item.name == "grid":
            grid |= _reached(items, names_of_item(item))
    # A helper name is a size of the problem if lengths and the grid follow it; else it is a tile or a capacity.
    wanted = ((lengths | grid | shared) & own) | (lengths & grid)
    for parameter in kernel.parameters:
        whole = parameter.element is not None and parameter.element.dtype.strip("u").startswith("int")
        if not parameter.is_pointer and whole and _is_bound(parameter.name, body):
            wanted |= _reached(items, frozenset((parameter.name,)))
    kept = wanted - _block_names(items) - frozenset(fixed)
    return tuple(item.name for item in items if isinstance(item, Scalar) and item.name in kept)


_COMPARISON = re.compile(r"(?<![<>=!-])([<>])=?(?![<>=])")
_END_OF_OPERAND = frozenset(";,&|?<>={}")


def _is_bound(name: str, body: str) -> bool:
    """Whether the body has the name on the larger side of a comparison."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    for match in _COMPARISON.finditer(body):
        side = _operand(body, match.end(), 1) if match.group(1) == "<" else _operand(body, match.start() - 1, -1)
        if word.search(side):
            return True
    return False


def _operand(body: str, start: int, step: int) -> str:
    """The text from a place on, forwards or backwards, up to where the expression ends."""
    opening, closing = ("([", ")]") if step > 0 else (")]", "([")
    depth = 0
    at = start
    while 0 <= at < len(body):
        letter = body[at]
        if letter in opening:
            depth += 1
        elif letter in closing:
            depth -= 1
        if depth < 0 or (depth == 0 and letter in _END_OF_OPERAND):
            break
        at += step
    return body[start:at] if step > 0 else body[at + 1 : start + 1]


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
    """Other values for each scalar argument that is no size, 0, 1 and -1 of all of them first; resolving refuses what
    its type cannot hold."""
    of_each: list[tuple[str, tuple[Value, ...]]] = []
    required = frozenset().union(*(names_of_item(item) for item in workload.items if isinstance(item, Requirement)))
    parameters = {one.name: one for one in workload.kernel.parameters if not one.is_pointer}
    left_alone = set(workload.sizes) | workload.fixed | _block_names(workload.items)
    for name in _free_names(workload, [item.name for item in workload.items if isinstance(item, Scalar)]):
        parameter = parameters.get(name.split(".")[0])
        if parameter is None or name in left_alone:
            continue
        element = parameter.element
        as_float = element is not None and is_float(element.dtype)
        values: tuple[Value, ...] = (0.0, 1.0, -1.0, 2.5, -40.0) if as_float else (0, 1, -1, 2, 7, 37, 1000003)
        if element is not None and element.dtype == "bool":
            values = (0, 1)
        if name in required and not as_float:
            values = (1,)
        of_each.append((name, values))
    for rank in range(max((len(values) for _, values in of_each), default=0)):
        for name, values in of_each:
            if rank < len(values):
                yield name, values[rank]
