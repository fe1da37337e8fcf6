"""Small frozen records that travel between the rooms. No behaviour, no input or output.

Every name here is a word of the project's vocabulary (docs/architecture.md). Times are in
seconds, sizes in bytes, byte offsets count from the start of a file; lines and columns count
from 1 and columns count Unicode code points, as compilers print them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

# ---------------------------------------------------------------------------------- failures


@frozen
class Failure:
    """Why something could not be done. Failures are values: they are stored, shown and passed on.

    ``kind`` is a short stable word (``"compile-error"``, ``"timeout"``, ``"unsupported"``,
    ``"crash"``, ``"out-of-memory"``, ``"sandbox-missing"``, ``"bad-input"``, ``"missing-tool"``,
    ``"refused"``, ``"cancelled"``). ``file``, ``line`` and ``column`` point at the cause where one
    is known. ``cure`` says what the user can do.
    """

    kind: str
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    cure: str = ""


@frozen
class Capability:
    """One thing that works here or does not, as ``optiml doctor`` prints it.

    ``detail``: version and place, or what is missing; ``cure``: what brings it back ("" if available).
    """

    name: str
    available: bool
    detail: str
    cure: str = ""


# ------------------------------------------------------------------------------------ source


@frozen
class SourceRange:
    """A half-open byte range of one file, with its position for people (1-based)."""

    file: str
    start_byte: int
    end_byte: int
    start_line: int
    start_column: int
    end_line: int
    end_column: int


@frozen
class Edit:
    """Replaces bytes ``start_byte`` to ``end_byte`` (half-open) of ``file`` by ``replacement``."""

    file: str
    start_byte: int
    end_byte: int
    replacement: bytes


@frozen
class StructField:
    """One member of a plain struct: ``offset`` in bytes from its start."""

    name: str
    element: ElementType
    offset: int
    length: int = 1


@frozen
class ElementType:
    """What one element of a buffer, or one scalar argument, is.

    ``spelling``: as C++ code writes it (``"float4"``). ``dtype``: NumPy's name of the scalar it is
    made of (``"float32"``, ``"int64"``, ``"bool"``; ``"float16"``; ``"bfloat16"``,
    ``"float8_e4m3fn"`` and ``"float8_e5m2"`` come from ml_dtypes); ``""`` for a struct with
    ``fields``. ``lanes``: 4 for ``float4``. ``size`` and ``alignment`` in bytes.
    """

    spelling: str
    dtype: str
    size: int
    alignment: int
    lanes: int = 1
    fields: tuple[StructField, ...] = ()


@frozen
class Parameter:
    """One parameter of a kernel. ``type`` is its text without the name; ``element`` its element type
    (of the pointee for a pointer) or None where it is unknown or depends on a template parameter."""

    name: str
    type: str
    range: SourceRange
    is_pointer: bool
    is_const: bool  # of the pointee for a pointer
    is_restrict: bool
    element: ElementType | None
    is_reference: bool = False
    default: str | None = None


@frozen
class TemplateParameter:
    name: str
    kind: str  # "typename", or the type text of a value parameter ("int", "bool")
    default: str | None = None


@frozen
class Kernel:
    """A ``__global__`` function definition. ``qualified`` joins namespaces with ``::``.

    ``range`` covers the definition with its template header and qualifiers, ``signature_range``
    from the name to the closing parenthesis, ``body_range`` the braces.
    """

    name: str
    qualified: str
    file: str
    range: SourceRange
    name_range: SourceRange
    signature_range: SourceRange
    body_range: SourceRange
    parameters: tuple[Parameter, ...]
    template_parameters: tuple[TemplateParameter, ...] = ()
    launch_bounds: tuple[str, ...] = ()
    has_syntax_error: bool = False
    # Template argument lists used by launches or explicit instantiations in the file.
    instantiations: tuple[tuple[str, ...], ...] = ()


@frozen
class LaunchSite:
    """One ``kernel<<<grid, block, shared, stream>>>(arguments)``: the texts as written."""

    kernel: str  # name as written, without template arguments
    range: SourceRange
    grid: str
    block: str
    shared: str | None
    stream: str | None
    arguments: tuple[str, ...]
    template_arguments: tuple[str, ...]
    function_range: SourceRange | None  # of the host function around it
    grid_range: SourceRange
    block_range: SourceRange
    shared_range: SourceRange | None = None


# ---------------------------------------------------------------------------------- workload


@frozen
class BufferContent:
    """What a buffer holds: one item of the workload language.

    ``kind``: normal, uniform, ramp, zeros, constant, index, permutation, sorted, offsets, or
    ``poison`` for an output. ``parameters`` are evaluated numbers.
    """

    kind: str
    parameters: tuple[float, ...] = ()


@frozen
class BufferArgument:
    """A pointer argument: ``length`` elements of ``element``, filled by ``content``."""

    name: str
    element: ElementType
    length: int
    content: BufferContent


@frozen
class ScalarArgument:
    """A by-value argument. ``value`` is an int, float or bool; for a struct a mapping of members."""

    name: str
    element: ElementType
    value: int | float | bool | Mapping[str, Any]


Argument = BufferArgument | ScalarArgument


@frozen
class Launch:
    """One call of a kernel with everything evaluated: what a device runs."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int  # dynamic shared memory, bytes
    arguments: tuple[Argument, ...]
    template_arguments: tuple[str, ...] = ()
    # The evaluated names of the workload (scalars and helper names) this launch came from.
    names: Mapping[str, int | float] = field(factory=dict)
    # __constant__ and __device__ globals of the file to fill before the launch.
    globals: tuple[Argument, ...] = ()


Origin = Literal["declared", "inferred", "captured"]


@frozen
class Problem:
    """Something a user should see about a declaration or an inference, with where it is."""

    message: str
    line: int | None = None
    column: int | None = None
    cure: str = ""


@frozen
class LaunchChange:
    """How a variant's launch differs from the original's, as expressions of the workload language.

    Each expression may use the workload's names (scalar arguments) and the original's
    ``grid.x`` .. ``block.z`` and ``shared``. None keeps the original's value.
    """

    grid: tuple[str, str, str] | None = None
    block: tuple[str, str, str] | None = None
    shared: str | None = None
    template_arguments: tuple[str, ...] | None = None


# ----------------------------------------------------------------------------------- variant


@frozen
class Step:
    """One step of a variant: a rewrite with its parameters, or a model's edit with its rationale."""

    name: str
    parameters: Mapping[str, int | float | str | bool]
    rationale: str
    proposer: str = "rewrites"


@frozen
class Variant:
    """The original source with a chain of steps applied.

    ``data`` is the whole file's bytes after the steps. ``kernel`` is the qualified name.
    ``flags`` are compile flags from the allow-list. ``launch_change`` is relative to the original.
    ``not_checked`` carries what a step relies on that no run can show (``--allow`` facts).
    """

    file: str
    data: bytes
    kernel: str
    flags: tuple[str, ...] = ()
    launch_change: LaunchChange = LaunchChange()
    steps: tuple[Step, ...] = ()
    not_checked: tuple[str, ...] = ()
    # Other files of the workspace whose launches of the kernel the steps changed: path and whole new bytes.
    companions: tuple[tuple[str, bytes], ...] = ()


# ------------------------------------------------------------------------------ verification

CheckResult = Literal["passed", "failed", "not_run"]


@frozen
class Check:
    """One check of a verdict: what was checked, the result, and why or how closely."""

    name: str
    result: CheckResult
    detail: str


@frozen
class Verdict:
    """The result of verification. ``equivalent`` None means "could not tell", a refusal everywhere."""

    equivalent: bool | None
    level: Literal["quick", "full"]
    checks: tuple[Check, ...]
    not_checked: tuple[str, ...]
    reason: str = ""  # in one sentence, for a refusal
    dropped_sizes: tuple[str, ...] = ()  # sizes at which the original itself misbehaves
    seconds: float = 0.0


# ---------------------------------------------------------------------- profile and findings


@frozen
class AccessCounts:
    """Counts of one access site (a source line, a kind, a space, a width), summed over a launch.

    The meanings are Nsight Compute's: ``requests`` executed warp-level instructions, ``sectors``
    32-byte sectors of global requests, ``wavefronts`` passes of a shared-memory request, ``ideal_*``
    what the same bytes would have needed. ``same_address``: atomic lanes that met a taken address.
    ``lines``: 128-byte lines of global requests, the tag look-ups of L1. Where reuse was watched,
    entry k of ``sector_reuse`` counts the sectors whose last touch in the block lies at least 2**k
    distinct lines back (or never was: in every entry), entry k of ``request_reuse`` the requests with
    such a sector: what a cache of 2**k lines misses. The last entry counts first touches only.
    ``distinct_sectors``: those no earlier request of the run touched; ``other_warp``: requests for a line
    that another warp of the block touched last. Both are -1 where not watched.
    """

    line: int
    kind: Literal["load", "store", "atomic"]
    space: Literal["global", "shared", "module", "local"]
    size: int  # bytes per lane
    requests: int
    lanes: int
    bytes: int
    sectors: int = 0
    ideal_sectors: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    max_degree: int = 0
    same_address: int = 0
    buffer: str = ""  # the argument it goes to, where known
    lines: int = 0
    distinct_sectors: int = -1
    other_warp: int = -1
    sector_reuse: tuple[int, ...] = ()
    request_reuse: tuple[int, ...] = ()


@frozen
class ResourceUsage:
    """What the compiler says of one kernel: registers a thread, bytes of everything else."""

    registers: int
    shared: int  # static shared memory
    stack: int
    spill_stores: int
    spill_loads: int
    constant: int = 0
    architecture: str = ""
    spill_note: str = ""
    barriers: int = 1  # block barriers


@frozen
class Profile:
    """Metrics of one launch, per kernel and per source line, from one origin.

    ``metrics`` uses long plain names with the unit last (``dram_bytes``, ``sectors_per_request``,
    ``achieved_occupancy`` 0..1). ``line_metrics`` maps line -> name -> value. A metric that was not
    measured is absent, never 0.
    """

    kernel: str
    target: str  # the GPU it is for, for example "NVIDIA H200"
    origin: Literal["ncu", "imported", "emulator", "static"]
    time: float | None  # seconds
    time_kind: Literal["measured", "predicted"] | None
    metrics: Mapping[str, float]
    line_metrics: Mapping[int, Mapping[str, float]]
    accesses: tuple[AccessCounts, ...] = ()
    resources: ResourceUsage | None = None


@frozen
class Finding:
    """One diagnosed bottleneck with its evidence and the names of the rewrites that answer it."""

    kind: str  # one of BOTTLENECK_KINDS
    range: SourceRange
    severity: Literal["high", "medium", "low"]
    message: str
    evidence: Mapping[str, float | str]
    estimated_gain: float | None  # factor on the kernel's time, at least 1.0
    rewrites: tuple[str, ...] = ()
    origin: Literal["ncu", "imported", "emulator", "static"] = "emulator"


BOTTLENECK_KINDS: tuple[str, ...] = (
    "uncoalesced-access",
    "shared-bank-conflict",
    "redundant-global-traffic",
    "low-occupancy",
    "register-spill",
    "divergence",
    "atomic-contention",
    "latency-bound-launch",
    "accidental-double",
    "narrow-access",
    "barrier-bound",
    "memory-latency",
    "repeated-pass",
)


@frozen
class Roofline:
    """How close a launch comes to its target's ceiling: ``fraction`` 0..1 of the binding resource."""

    fraction: float
    bound_by: str  # "dram", "l2", "l1", "shared", "issue", "fp32", "fp64", "tensor", "latency"
    floor: float  # seconds: no correct kernel with this work runs faster


# ------------------------------------------------------------------------------- measurement


@frozen
class Measurement:
    """Paired timings of a variant against the original, or a prediction for a named GPU.

    ``time`` and ``original_time`` are seconds a launch; ``speedup`` with its 95 % interval
    ``low`` to ``high``. ``inconclusive`` says that the interval did not become tight enough.
    """

    kind: Literal["measured", "predicted"]
    target: str
    time: float
    original_time: float
    speedup: float
    low: float
    high: float
    samples: int = 0
    cache: Literal["cold", "warm", "modelled"] = "modelled"
    inconclusive: bool = False
    notes: tuple[str, ...] = ()
