"""What buffers hold: shapes and dtypes, determinism, and that every family keeps what the kernel relies on."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from optiml_core.records import BufferArgument, BufferContent, ElementType, Failure, Launch, StructField
from optiml_core.source import element_type_of
from optiml_core.workload import NAN_FAMILIES, OUTSIDE_FAMILIES, VALUE_FAMILIES, make_contents, narrowed
from optiml_core.workload.contents import buffer_contents

INSIDE_FAMILIES = [family for family in VALUE_FAMILIES if family not in OUTSIDE_FAMILIES]
FLOATS = ["float", "double", "half", "__nv_bfloat16", "__nv_fp8_e4m3", "__nv_fp8_e5m2"]
INTEGERS = ["int", "unsigned", "short", "unsigned char", "long long", "unsigned long long", "bool", "signed char"]


def element(spelling: str) -> ElementType:
    found = element_type_of(spelling)
    assert found is not None
    return found


def buffer(spelling: str, kind: str, *parameters: float, length: int = 1000, name: str = "x") -> BufferArgument:
    return BufferArgument(name, element(spelling), length, BufferContent(kind, parameters))


def filled(argument: BufferArgument, family: str = "declared", seed: int = 0) -> np.ndarray:  # type: ignore[type-arg]
    array = buffer_contents(argument, seed, family)
    assert not isinstance(array, Failure), array
    return array


def launch_with(*arguments: BufferArgument) -> Launch:
    return Launch((1, 1, 1), (1, 1, 1), 0, arguments)


# -------------------------------------------------------------------------------- as declared


@pytest.mark.parametrize("spelling", FLOATS + INTEGERS)
@pytest.mark.parametrize("kind", ["normal", "uniform", "ramp", "zeros", "sorted"])
def test_every_content_of_every_type(spelling: str, kind: str) -> None:
    array = filled(buffer(spelling, kind))
    assert array.shape == (1000,)
    assert array.dtype == {"__nv_bfloat16": ml_dtypes.bfloat16}.get(spelling, array.dtype)
    assert array.dtype.itemsize == element(spelling).size
    values = array.astype(np.float64)
    assert np.isfinite(values).all()
    if kind == "zeros":
        assert not values.any()
    elif kind == "sorted":
        assert (np.diff(values) >= 0).all()
    else:
        assert len(np.unique(values)) > 1


def test_normal_and_uniform_have_their_parameters() -> None:
    normal = filled(buffer("float", "normal", 5, 2, length=100_000))
    assert abs(normal.mean() - 5) < 0.05
    assert abs(normal.std() - 2) < 0.05
    uniform = filled(buffer("double", "uniform", -3, 7, length=100_000))
    assert uniform.min() >= -3
    assert uniform.max() < 7
    assert abs(uniform.mean() - 2) < 0.1
    integers = filled(buffer("int", "uniform", -2, 3, length=10_000))
    assert sorted(np.unique(integers)) == [-2, -1, 0, 1, 2]


@pytest.mark.parametrize(
    ("spelling", "kind", "parameters", "expected"),
    [
        ("int", "ramp", (), [0, 1, 2, 3, 4]),
        ("float", "ramp", (), [0, 1, 2, 3, 4]),
        ("bool", "ramp", (), [0, 1, 0, 1, 0]),
        ("float", "constant", (2.5,), [2.5] * 5),
        ("int", "constant", (7,), [7] * 5),
        ("unsigned char", "constant", (300,), [255] * 5),
    ],
)
def test_exact_contents(spelling: str, kind: str, parameters: tuple[float, ...], expected: list[float]) -> None:
    assert filled(buffer(spelling, kind, *parameters, length=5)).astype(float).tolist() == expected


def test_a_ramp_wraps_where_the_type_ends() -> None:
    assert filled(buffer("unsigned char", "ramp", length=257))[-2:].tolist() == [255, 0]
    assert filled(buffer("__nv_bfloat16", "ramp", length=257)).astype(float)[-2:].tolist() == [255, 0]


def test_vector_types_have_a_lane_axis() -> None:
    array = filled(buffer("float4", "normal"))
    assert array.shape == (1000, 4)
    assert array.dtype == np.float32
    assert filled(buffer("uchar3", "uniform", length=0)).shape == (0, 3)


PARTICLE = ElementType(
    "Particle",
    "",
    24,
    8,
    fields=(
        StructField("position", element("float2"), 0),
        StructField("mass", element("double"), 8),
        StructField("kind", element("unsigned char"), 16),
        StructField("history", element("short"), 18, 3),
    ),
)


def test_structs_are_structured_arrays_with_their_own_layout() -> None:
    array = filled(BufferArgument("p", PARTICLE, 50, BufferContent("normal")))
    assert array.shape == (50,)
    assert array.dtype.itemsize == 24
    assert array["position"].shape == (50, 2)
    assert array["history"].shape == (50, 3)
    assert array.dtype.fields is not None
    assert [array.dtype.fields[name][1] for name in ("position", "mass", "kind", "history")] == [0, 8, 16, 18]
    assert len(np.unique(array["mass"])) == 50


def test_an_output_is_poisoned() -> None:
    assert np.isnan(filled(buffer("float", "poison"))).all()
    assert (filled(buffer("int", "poison")) == -1).all()
    assert np.isnan(filled(buffer("half", "poison")).astype(float)).all()


# ------------------------------------------------------------------------------- determinism


def test_the_same_seed_gives_the_same_bytes() -> None:
    one, other = (make_contents(launch_with(buffer("float", "normal")), 7) for _ in range(2))
    assert not isinstance(one, Failure)
    assert not isinstance(other, Failure)
    assert one["x"].tobytes() == other["x"].tobytes()


def test_another_seed_or_name_gives_other_bytes() -> None:
    bytes_of = {
        filled(buffer("float", "normal", name=name), seed=seed).tobytes() for name in ("x", "y") for seed in (0, 1)
    }
    assert len(bytes_of) == 4


def test_a_further_parameter_leaves_the_others_as_they_are() -> None:
    alone = make_contents(launch_with(buffer("float", "normal")), 3)
    both = make_contents(launch_with(buffer("int", "uniform", name="first"), buffer("float", "normal")), 3)
    assert not isinstance(alone, Failure)
    assert not isinstance(both, Failure)
    assert list(both) == ["first", "x"]
    assert alone["x"].tobytes() == both["x"].tobytes()


def test_globals_are_filled_too() -> None:
    launch = evolve(launch_with(), globals=(buffer("float", "normal", name="weights", length=9),))
    arrays = make_contents(launch, 0)
    assert not isinstance(arrays, Failure)
    assert arrays["weights"].shape == (9,)


# ----------------------------------------------------------------------------------- families


@pytest.mark.parametrize("family", INSIDE_FAMILIES)
@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(["index", "permutation", "offsets"]),
    n=st.integers(1, 300),
    length=st.integers(0, 300),
    spelling=st.sampled_from(["int", "unsigned short", "long long"]),
)
def test_indexes_stay_valid(family: str, kind: str, n: int, length: int, spelling: str) -> None:
    values = filled(buffer(spelling, kind, n, length=length), family).astype(np.int64)
    if kind == "offsets":
        assert (np.diff(values) >= 0).all()
        assert ((values >= 0) & (values <= n)).all()
        if length:
            assert values[-1] == n
        if length > 1:
            assert values[0] == 0
        return
    assert ((values >= 0) & (values < n)).all()
    if kind == "permutation":
        for start in range(0, length - n + 1, n):
            assert sorted(values[start : start + n]) == list(range(n))


@pytest.mark.parametrize("family", INSIDE_FAMILIES)
@pytest.mark.parametrize("spelling", INTEGERS)
@settings(max_examples=10, deadline=None)
@given(low=st.integers(0, 50), span=st.integers(1, 77), length=st.integers(1, 200))
def test_integers_stay_in_their_declared_range(family: str, spelling: str, low: int, span: int, length: int) -> None:
    """They may be used as indexes, whatever the declaration calls them."""
    if spelling == "bool":
        low, span = 0, 2
    values = filled(buffer(spelling, "uniform", low, low + span, length=length), family).astype(np.int64)
    assert ((values >= low) & (values < low + span)).all()


@pytest.mark.parametrize("family", VALUE_FAMILIES)
@pytest.mark.parametrize("kind", ["zeros", "constant"])
@pytest.mark.parametrize("spelling", ["float", "int"])
def test_constants_stay(family: str, kind: str, spelling: str) -> None:
    parameters = (3.0,) if kind == "constant" else ()
    assert len(np.unique(filled(buffer(spelling, kind, *parameters), family))) == 1


@pytest.mark.parametrize("spelling", FLOATS)
def test_special_values_hold_zeros_and_denormals(spelling: str) -> None:
    array = filled(buffer(spelling, "normal", length=4000), "special values")
    values = array.astype(np.float64)
    assert np.isfinite(values).all()
    assert ((values == 0) & np.signbit(values)).any()
    assert ((values == 0) & ~np.signbit(values)).any()
    smallest = float(ml_dtypes.finfo(array.dtype).smallest_normal)
    assert ((np.abs(values) < smallest) & (values != 0)).any()


@pytest.mark.parametrize("spelling", ["float", "double", "half", "__nv_bfloat16"])
def test_infinities_and_nan_are_few(spelling: str) -> None:
    values = filled(buffer(spelling, "normal", length=100_000), "infinities and NaN").astype(np.float64)
    odd = ~np.isfinite(values)
    assert 0 < odd.sum() < 150
    assert np.isnan(values).any()
    assert np.isposinf(values).any()
    assert np.isneginf(values).any()
    assert not np.isfinite(filled(buffer(spelling, "normal", length=1), "infinities and NaN").astype(float)).all()


@pytest.mark.parametrize("spelling", ["float", "double", "half", "__nv_bfloat16"])
def test_large_range_spans_many_powers_of_two(spelling: str) -> None:
    values = np.abs(filled(buffer(spelling, "normal", length=10_000), "large range").astype(np.float64))
    assert np.isfinite(values).all()
    spread = np.log2(values.max()) - np.log2(values[values > 0].min())
    assert spread > (4 if spelling == "half" else 35)


def test_cancellation_pairs_nearly_cancel() -> None:
    values = filled(buffer("float", "normal", length=1000), "cancellation").astype(np.float64)
    sums = values[0::2] + values[1::2]
    assert np.abs(sums).max() < 1e-5
    assert np.abs(sums).max() > 0
    assert np.abs(values).mean() > 0.5


def test_large_mean_has_a_small_relative_spread() -> None:
    values = filled(buffer("float", "normal", length=1000), "large mean").astype(np.float64)
    assert values.mean() / values.std() > 15


def test_duplicates_are_few_distinct_values() -> None:
    for spelling in ("float", "int"):
        assert len(np.unique(filled(buffer(spelling, "uniform", 0, 100), "duplicates"))) <= 3


@pytest.mark.parametrize("family", [family for family in INSIDE_FAMILIES if family not in NAN_FAMILIES])
def test_a_declared_range_holds_in_every_family(family: str) -> None:
    """A kernel that takes probabilities, or bins by value, relies on it; infinities are the exception that is named."""
    values = filled(buffer("float", "uniform", 2, 3, length=5000), family)
    assert ((values >= 2) & (values <= 3)).all()


@pytest.mark.parametrize("family", VALUE_FAMILIES)
@pytest.mark.parametrize("spelling", ["float", "int", "half"])
def test_sorted_stays_sorted(family: str, spelling: str) -> None:
    values = filled(buffer(spelling, "sorted"), family).astype(np.float64)
    assert values.shape == (1000,)
    assert (values[1:] >= values[:-1]).all()


@pytest.mark.parametrize("family", [one for one in VALUE_FAMILIES[1:] if one not in OUTSIDE_FAMILIES])
def test_a_family_differs_from_what_is_declared(family: str) -> None:
    declared = filled(buffer("float", "normal"))
    assert filled(buffer("float", "normal"), family).tobytes() != declared.tobytes()


@pytest.mark.parametrize("spelling", [*INTEGERS, "float", "double", "half"])
@pytest.mark.parametrize("kind", ["uniform", "index"])
@pytest.mark.parametrize("family", OUTSIDE_FAMILIES)
def test_half_of_the_values_leave_the_range(family: str, kind: str, spelling: str) -> None:
    """What an original does there, if it does it without a fault, a candidate has to do too."""
    if spelling == "bool" or (kind == "index" and spelling in ("float", "double", "half")):
        return
    low, high = (20, 90) if kind == "uniform" else (0, 90)
    values = filled(buffer(spelling, kind, *((low, high) if kind == "uniform" else (high,)), length=400), family)
    below, above = (values < low).mean(), (values > high - (kind == "index" or spelling in INTEGERS)).mean()
    unsigned = spelling.startswith("unsigned")
    if family == "below the range":
        assert above == 0
        assert below > 0.2 if not unsigned or low else below == 0
    elif family == "above the range":
        assert below == 0
        assert above > 0.2
    else:
        assert above > 0.1


@pytest.mark.parametrize(
    ("spelling", "wanted"),
    [
        ("float", [0.5, 2.5, 0.7, 0.7 * 2.5, -0.7, 12.0, 6.0]),
        ("int", [11, 12, 13, -12, 1 << 30, (1 << 30) - 1, 7]),
        ("unsigned char", [11, 12, 13, 128, 127]),
    ],
)
def test_thresholds_lie_at_the_numbers_of_the_code(spelling: str, wanted: list[float]) -> None:
    content = ("normal",) if spelling == "float" else ("uniform", -(2**31), 2**31 - 1)
    values = buffer_contents(buffer(spelling, *content, length=60000), 0, "thresholds", (12.0, 0.7, 7.0))
    assert not isinstance(values, Failure)
    known = set(values.tolist())
    assert all(float(np.asarray(one, values.dtype)) in known for one in wanted)


def test_an_unknown_family_is_a_failure() -> None:
    failure = make_contents(launch_with(buffer("float", "normal")), 0, "odd")
    assert isinstance(failure, Failure)
    assert "odd" in failure.message


# ----------------------------------------------------------------------------------- widening


@pytest.mark.parametrize("family", VALUE_FAMILIES)
@pytest.mark.parametrize(
    ("spelling", "wide"),
    [
        ("float", np.float64),
        ("double", np.longdouble),
        ("half", np.float64),
        ("__nv_bfloat16", np.float64),
        ("float4", np.float64),
        ("int", np.int32),
        ("unsigned char", np.uint8),
    ],
)
def test_widened_contents_are_the_same_values(family: str, spelling: str, wide: type) -> None:
    launch = launch_with(buffer(spelling, "normal"))
    narrow, wider = make_contents(launch, 1, family), make_contents(launch, 1, family, widened=True)
    assert not isinstance(narrow, Failure)
    assert not isinstance(wider, Failure)
    assert wider["x"].dtype == np.dtype(wide)
    back = narrowed(wider, launch.arguments)["x"]
    assert back.dtype == narrow["x"].dtype
    assert np.array_equal(back.astype(np.float64), narrow["x"].astype(np.float64), equal_nan=True)


def test_a_widened_struct_has_the_layout_of_its_wider_members() -> None:
    argument = BufferArgument("p", PARTICLE, 5, BufferContent("normal"))
    wide = make_contents(launch_with(argument), 0, widened=True)
    assert not isinstance(wide, Failure)
    assert wide["p"]["position"].dtype == np.float64
    assert wide["p"]["mass"].dtype == np.longdouble
    assert wide["p"]["kind"].dtype == np.uint8
    narrow = filled(argument)
    assert np.array_equal(wide["p"]["position"], narrow["position"].astype(np.float64))


# ---------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("argument", "part"),
    [
        (buffer("unsigned char", "index", 300), "does not fit the type uint8"),
        (buffer("unsigned char", "offsets", 300), "does not fit"),
        (buffer("int", "index", 0), "has no valid value"),
        (buffer("int", "permutation", 0), "has no valid value"),
    ],
)
def test_impossible_contents_are_failures(argument: BufferArgument, part: str) -> None:
    failure = make_contents(launch_with(argument), 0)
    assert isinstance(failure, Failure)
    assert part in failure.message


def test_too_much_memory_is_a_failure() -> None:
    failure = make_contents(launch_with(buffer("double", "zeros", length=1 << 33)), 0)
    assert isinstance(failure, Failure)
    assert failure.kind == "out-of-memory"
