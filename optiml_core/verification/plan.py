"""Where a candidate is compared: sizes, scalars, seeds, value families, addresses, aliasing.

The quick gate takes the two most telling shapes at which the original behaves; the full verdict takes all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve, frozen

from optiml_core.records import BufferArgument, Failure, Kernel, Launch
from optiml_core.verification.references import Point
from optiml_core.verification.roles import Role
from optiml_core.workload import VALUE_FAMILIES, Workload, resolve_launch, size_variations
from optiml_core.workload.expression import names_in
from optiml_core.workload.items import Scalar

QUICK_SHAPES = 2
MOST_ALIAS_PAIRS = 4

Overrides = tuple[tuple[str, int | float], ...]


@frozen
class Plan:
    """Where to compare, the most telling first: ``shapes`` as points of the first seed, ``scalars`` as values to put
    on top of a shape, the ``declared`` launches as they are."""

    shapes: tuple[Point, ...]
    scalars: tuple[Overrides, ...]
    declared: tuple[Point, ...]


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
    return Plan(tuple(points), tuple(dict.fromkeys(scalars)), tuple(declared))


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


def families(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """The same shapes in every value family besides the declared one."""
    return tuple(evolve(point, family=family) for family in VALUE_FAMILIES if family != "declared" for point in points)


def shifted(points: tuple[Point, ...], shapes: tuple[Point, ...]) -> tuple[Point, ...]:
    """The points, and the shape whose sizes divide best, with every base address moved by one element: where sizes
    are odd, code with a tail may never come to its vector accesses."""

    def divisibility(point: Point) -> int:
        return min((int(value) & -int(value) for _, value in point.overrides if value), default=0)

    friendly = max(shapes, key=divisibility, default=None)
    chosen = dict.fromkeys([*points, *([friendly] if friendly is not None else [])])
    return tuple(evolve(point, offset=1) for point in chosen)


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
