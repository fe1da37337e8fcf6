"""Where a candidate is compared: sizes, scalars, seeds, value families, addresses, aliasing.

The quick gate takes the two most telling shapes at which the original behaves; the full verdict takes all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve, frozen

from optiml_core.records import (
    BufferArgument,
    BufferContent,
    ElementType,
    Failure,
    Kernel,
    Launch,
    LaunchChange,
    ScalarArgument,
)
from optiml_core.verification.references import EXTRA_SEED, Point
from optiml_core.verification.roles import Role
from optiml_core.workload import (
    OUTSIDE_FAMILIES,
    VALUE_FAMILIES,
    Workload,
    has_range,
    larger_sizes,
    resolve_launch,
    size_variations,
    with_size,
)
from optiml_core.workload.elements import is_float
from optiml_core.workload.expression import names_in
from optiml_core.workload.items import Scalar

QUICK_SHAPES = 2
MOST_ALIAS_PAIRS = 4
MOST_SHIFTED = 6

Overrides = tuple[tuple[str, int | float], ...]


@frozen
class Plan:
    """Where to compare, the most telling first: ``shapes`` as points of the first seed, ``scalars`` as values to put
    on top of a shape, the ``declared`` launches as they are, ``larger`` sizes than those."""

    shapes: tuple[Point, ...]
    scalars: tuple[Overrides, ...]
    declared: tuple[Point, ...]
    larger: tuple[Point, ...] = ()


def make_plan(workload: Workload, seed: int) -> Plan:
    """The points of a workload's sizes, scalars and declared launches."""
    sizes = set(workload.sizes)
    shapes: list[Overrides] = []
    scalars: list[Overrides] = []
    for variation in size_variations(workload, seed):
        if set(variation) <= sizes:
            shapes.append(tuple(sorted(variation.items())))
        else:
            scalars.append(tuple(sorted((name, value) for name, value in variation.items() if name not in sizes)))
    # Declared sizes run once at the end, without checkers: whatever a candidate hard-codes, it hard-codes those.
    varied = _quick_first([one for one in shapes if one], workload.sizes) or [()]
    points = [Point(overrides=one) for one in varied]
    points += list(_other_launches(workload, varied[0]))
    declared = [Point(index=index, checked=False) for index in range(workload.launch_count)]
    if varied == [()]:
        declared = declared[1:]
    larger = [Point(overrides=tuple(sorted(one.items())), seed=EXTRA_SEED) for one in larger_sizes(workload)]
    return Plan(tuple(points), tuple(dict.fromkeys(scalars)), tuple(declared), tuple(larger))


def _quick_first(shapes: list[Overrides], sizes: tuple[str, ...]) -> list[Overrides]:
    """The shapes with the one second in which the last size is longest and odd: the inner extent of most kernels,
    over several blocks and steps of a loop."""
    if len(shapes) < 3 or not sizes:
        return shapes

    def length(shape: Overrides) -> float:
        value = dict(shape).get(sizes[-1], 0)
        return value if value % 32 else 0

    long = max(shapes[1:], key=length)
    return [shapes[0], long, *(shape for shape in shapes[1:] if shape != long)]


def _other_launches(workload: Workload, overrides: Overrides) -> Iterator[Point]:
    """Launches after the first that differ from it in more than the sizes, at small sizes: other scalars, contents,
    template arguments."""
    first = resolve_launch(workload, 0, dict(overrides))
    if isinstance(first, Failure):
        return
    seen = [first]
    for index in range(1, workload.launch_count):
        launch = resolve_launch(workload, index, dict(overrides))
        if isinstance(launch, Launch) and not any(_same_launch(launch, other) for other in seen):
            seen.append(launch)
            yield Point(index=index, overrides=overrides)


def _same_launch(one: Launch, other: Launch) -> bool:
    return evolve(one, names={}) == evolve(other, names={})


def scalar_points(point: Point, scalars: tuple[Overrides, ...]) -> tuple[Point, ...]:
    """The point with each scalar at its other values, one at a time; where a scalar is 0 also with infinities and NaN,
    which a factor of 0 does not remove."""
    points: list[Point] = []
    for overrides in scalars:
        changed = evolve(point, overrides=tuple(sorted({**dict(point.overrides), **dict(overrides)}.items())))
        points.append(changed)
        if any(value == 0 for _, value in overrides):
            points.append(evolve(changed, family="infinities and NaN"))
    return tuple(points)


def scaled_down(workload: Workload, point: Point) -> tuple[Point, ...]:
    """The declared launch with every size divided by 2, 4, 8 and so on, largest first; sizes that must divide by
    something keep to the multiples of 64 below."""
    launch = resolve_launch(workload, point.index)
    if isinstance(launch, Failure):
        return ()
    sizes = {name: int(launch.names[name]) for name in workload.sizes if name in launch.names}
    free = {name: value for name, value in sizes.items() if name in _plain_numbers(workload)}
    points: list[Point] = []
    for power in range(1, 17):
        smaller = {name: max(value >> power, 1) for name, value in free.items()}
        rounded = {name: value // 64 * 64 if value >= 64 else value for name, value in smaller.items()}
        points.extend(evolve(point, overrides=tuple(sorted(one.items()))) for one in (smaller, rounded) if one)
    return tuple(dict.fromkeys(points))


def _plain_numbers(workload: Workload) -> frozenset[str]:
    """The names whose values are numbers: others follow from them and cannot be overridden apart."""
    return frozenset(item.name for item in workload.items if isinstance(item, Scalar) and not names_in(item.value))


def more_seeds(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """The same shapes with other contents."""
    return tuple(evolve(point, seed=number) for point in points for number in (1, 2))


def families(points: tuple[Point, ...], launch: Launch) -> tuple[Point, ...]:
    """The same shapes in every value family besides the declared one, that is one for this launch's buffers."""
    buffers = [one for one in (*launch.arguments, *launch.globals) if isinstance(one, BufferArgument)]
    ranged = any(_has_range(one.content, one.element) for one in buffers)
    chosen = [one for one in VALUE_FAMILIES if one != "declared" and (ranged or one not in OUTSIDE_FAMILIES)]
    return tuple(evolve(point, family=family) for family in chosen for point in points)


def _has_range(content: BufferContent, element: ElementType) -> bool:
    if element.fields:
        return any(_has_range(content, one.element) for one in element.fields)
    return bool(has_range(content, element.dtype))


# A candidate mentions many numbers that decide nothing (the extent of a tile); so many points are spent on them.
MOST_CONSTANT_SIZES = 6
MOST_CONSTANT_SCALARS = 8
# Sizes below are among the shapes anyway.
SMALLEST_CONSTANT_SIZE = 65


@frozen
class ConstantPoints:
    """Where a candidate is compared because of the numbers that only it mentions; sizes that could not be run."""

    points: tuple[Point, ...]
    left_out: tuple[str, ...] = ()


def constant_points(workload: Workload, point: Point, constants: tuple[float, ...]) -> ConstantPoints:
    """Sizes and scalars at these numbers and next to them, and contents around them, at the shape of ``point``."""
    whole = [int(one) for one in constants if float(one).is_integer() and 0 <= one < 1 << 40]
    sizes: list[Point] = []
    left_out: list[str] = []
    for number in sorted({one for one in whole if one >= SMALLEST_CONSTANT_SIZE}, reverse=True):
        for name in workload.sizes:
            for value in (2 * number + 1, number + 1, number):
                found = with_size(workload, name, value)
                if found is not None:
                    sizes.append(Point(overrides=tuple(sorted(found.items())), seed=EXTRA_SEED))
                elif number >= 1 << 16 and value == number and number & (number + 1):
                    left_out.append(f"{name} = {number}")
    known = dict(point.overrides)
    scalars: list[Point] = []
    for name, declared in _free_scalars(workload):
        as_float = isinstance(declared, float)
        for one in [near for number in constants for near in (number, number + 1, -number - 1)]:
            if as_float or float(one).is_integer():
                overrides = {**known, name: float(one) if as_float else int(one)}
                if isinstance(resolve_launch(workload, point.index, overrides), Launch):
                    scalars.append(evolve(point, overrides=tuple(sorted(overrides.items())), seed=EXTRA_SEED))
    chosen = [*dict.fromkeys(sizes)][:MOST_CONSTANT_SIZES] + [*dict.fromkeys(scalars)][:MOST_CONSTANT_SCALARS]
    contents = evolve(point, family="thresholds", constants=constants)
    return ConstantPoints((contents, *chosen), tuple(dict.fromkeys(left_out)))


def _free_scalars(workload: Workload) -> Iterator[tuple[str, int | float]]:
    """The scalar arguments that are no sizes, whose value is a number, with that number."""
    launch = resolve_launch(workload)
    plain = _plain_numbers(workload)
    if isinstance(launch, Launch):
        for argument in launch.arguments:
            if not isinstance(argument, ScalarArgument) or not isinstance(argument.value, int | float):
                continue
            if argument.name in plain and argument.name not in workload.sizes:
                kind = float if is_float(argument.element.dtype) else int
                yield argument.name, kind(argument.value)


def other_launches(point: Point, launch: Launch) -> tuple[Point, ...]:
    """The point with twice the blocks, and with blocks of half the width: a caller elsewhere may launch it so."""
    changes = [LaunchChange(grid=("2 * grid.x", "grid.y", "grid.z"))]
    if launch.block[0] % 2 == 0:
        changes.append(LaunchChange(block=("block.x / 2", "block.y", "block.z")))
    return tuple(evolve(point, change=change) for change in changes)


def shifted(points: tuple[Point, ...], shapes: tuple[Point, ...]) -> tuple[Point, ...]:
    """The points, and the shape whose sizes divide best, with every base address moved by one element: where sizes
    are odd, code with a tail may never come to its vector accesses."""

    def divisibility(point: Point) -> int:
        return min((int(value) & -int(value) for _, value in point.overrides if value), default=0)

    friendly = max(shapes, key=divisibility, default=None)
    chosen = dict.fromkeys([*points, *([friendly] if friendly is not None else [])])
    return tuple(evolve(point, offset=1) for point in chosen)


def shifted_alone(points: tuple[Point, ...], buffers: tuple[str, ...]) -> tuple[Point, ...]:
    """The points with the address of one buffer at a time moved: code may look at one address for all."""
    if len(buffers) < 2:
        return ()
    return tuple(evolve(point, shifted=name) for point in points[-1:] for name in buffers[:MOST_SHIFTED])


def alias_points(kernel: Kernel, launch: Launch, roles: Mapping[str, Role], point: Point) -> tuple[Point, ...]:
    """The point with an output in the memory of an input of the same type and length, for every such pair whose
    parameters the original does not promise to be apart."""
    restricted = {parameter.name for parameter in kernel.parameters if parameter.is_restrict}
    buffers = [one for one in launch.arguments if isinstance(one, BufferArgument)]
    pairs = [
        (output.name, source.name)
        for output in buffers
        for source in buffers
        if roles.get(output.name) in ("out", "in place")
        and roles.get(source.name) == "in"
        and (output.element, output.length) == (source.element, source.length)
        and not {output.name, source.name} & restricted
    ]
    return tuple(evolve(point, aliases=(pair,)) for pair in pairs[:MOST_ALIAS_PAIRS])
