"""``CudaDevice``: the device protocol on a GPU, and the clock of paired timing."""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from optiml_core.device.cuda.clocks import ClockLog
from optiml_core.device.cuda.connection import WorkerConnection
from optiml_core.device.cuda.lock import gpu_lock
from optiml_core.device.cuda.requests import (
    BufferBytes,
    GpuState,
    KernelImage,
    LaunchNumbers,
    ParameterBytes,
    RunAnswer,
    RunRequest,
    TimeAnswer,
    TimeRequest,
)
from optiml_core.device.protocol import Built, Contents, Fault, RunOptions, RunResult
from optiml_core.records import (
    BufferArgument,
    Check,
    ElementType,
    Failure,
    Launch,
    ResourceUsage,
    ScalarArgument,
    Variant,
)
from optiml_core.toolchain import discover

TIMING_SECONDS = 60.0


@frozen
class CompiledForGpu:
    """What the device needs of the compiler: the image, the mangled name, what ptxas said, PTX if it is known."""

    image: bytes
    symbol: str
    symbols: Mapping[str, str]
    resources: ResourceUsage | None
    log: str
    ptx: str = ""


# (variant, template arguments, "sm_90") -> compiled
CompileForGpu = Callable[[Variant, tuple[str, ...], str], CompiledForGpu | Failure]


class CudaDevice:
    """GPU ``index`` (within CUDA_VISIBLE_DEVICES) behind ``device.protocol.Device`` and ``pairs.TimingDevice``.

    ``compile_for_gpu`` turns a variant into device code. Nothing of CUDA is loaded into this process.
    """

    def __init__(self, index: int, compile_for_gpu: CompileForGpu) -> None:
        self._index = index
        self._compile = compile_for_gpu
        self._worker = WorkerConnection(index)
        self._images: dict[str, KernelImage] = {}
        self._sessions: dict[tuple[str, int], str] = {}
        self._session_contents: dict[str, Contents] = {}
        self._lock: contextlib.ExitStack | None = None
        self._holders = 0
        self._seen_restarts = 0
        self._clock_log = ClockLog()

    @property
    def name(self) -> str:
        return f"cuda:{self._index}"

    @property
    def index(self) -> int:
        return self._index

    def image_of(self, built: Built) -> KernelImage | None:
        """The device code behind a build of this device, for the tools that launch it in their own process."""
        return self._images.get(built.token)

    def state(self) -> GpuState | Failure:
        """The GPU's name, capability, memory and driver, as its worker sees them."""
        failure = self._worker.start()
        if failure is not None:
            return failure
        assert self._worker.state is not None
        return self._worker.state

    # ------------------------------------------------------------------------------------ build

    def build(self, variant: Variant, template_arguments: Sequence[str] = (), widened: bool = False) -> Built | Failure:
        """Compiles for this GPU's own architecture. There is no widened build on a GPU."""
        if widened:
            return Failure("unsupported", "the shadow in a wider type runs on the emulator only")
        state = self.state()
        if isinstance(state, Failure):
            return state
        architecture = f"sm_{state.capability[0]}{state.capability[1]}"
        compiled = self._compile(variant, tuple(template_arguments), architecture)
        if isinstance(compiled, Failure):
            return compiled
        token = hashlib.sha256(compiled.image + compiled.symbol.encode()).hexdigest()
        self._images[token] = KernelImage(token, compiled.image, compiled.symbol, dict(compiled.symbols))
        return Built(token, variant, compiled.resources, False, compiled.log)

    # -------------------------------------------------------------------------------------- run

    def run(
        self, built: Built, launch: Launch, contents: Contents, options: RunOptions | None = None
    ) -> RunResult | Failure:
        """One launch on fresh memory. The checkers of the emulator do not exist here: ``faults`` holds what the
        driver itself reports; guard zones are compared after the launch."""
        options = options or RunOptions()
        if options.blocks is not None or options.counts:
            return Failure("unsupported", "a GPU runs whole launches and counts nothing: profile with ncu")
        image = self._images.get(built.token)
        if image is None:
            return Failure("bad-input", "this variant was built by another device")
        laid = lay_out(launch, contents)
        request = RunRequest(
            built.token,
            LaunchNumbers(launch.grid, launch.block, launch.shared),
            laid.parameters,
            laid.buffers,
            laid.globals,
            max(options.guard, 0),
            options.poison,
        )
        if sum(item.data.nbytes + 2 * options.guard for item in laid.buffers) > options.memory:
            return Failure("out-of-memory", f"the launch's buffers exceed {options.memory} bytes")
        with self._held(shared=True) as held:
            if isinstance(held, Failure):
                return held
            answer = self._worker.ask(request, options.seconds + 5.0, image)
        if isinstance(answer, Failure):
            if answer.kind == "sticky-error":
                return RunResult({}, (Fault("sticky-error", None, answer.message),), True)
            return answer
        if not isinstance(answer, RunAnswer):
            return Failure("crash", "the GPU worker gave no run's answer")
        if answer.seconds > options.seconds:
            return Failure("timeout", f"the launch took {answer.seconds:.2f} s, the limit is {options.seconds:g} s")
        # The event's time can only be smaller than what passed on the worker's clock.
        if answer.seconds > answer.wall * 1.05 + 1e-4:
            return Failure("bad-timing", f"events say {answer.seconds:.3g} s, the clock {answer.wall:.3g} s")
        after = {
            name: restore_shape(answer.buffers[name], contents.buffers[name])
            for name in contents.buffers
            if name in answer.buffers
        }
        for name, data in answer.globals.items():
            after[name] = restore_shape(np.frombuffer(data, np.uint8), contents.buffers[name])
        return RunResult(after, (), answer.guards_intact, seconds=answer.seconds)

    # ----------------------------------------------------------------------------------- timing

    def time_launches(
        self, built: Built, launch: Launch, contents: Contents, repetitions: int, flush: bool
    ) -> float | Failure:
        """Mean seconds of a launch, by CUDA events in the worker; see ``pairs.TimingDevice``.

        The same ``contents`` stay on the GPU from call to call; another object uploads anew.
        """
        image = self._images.get(built.token)
        if image is None:
            return Failure("bad-input", "this variant was built by another device")
        laid = lay_out(launch, contents)
        session = next((name for name, known in self._session_contents.items() if known is contents), "")
        fresh = not session or self._worker_restarted()
        if fresh:
            session = uuid.uuid4().hex
            self._session_contents = {session: contents}
        request = TimeRequest(
            built.token,
            LaunchNumbers(launch.grid, launch.block, launch.shared),
            laid.parameters,
            laid.buffers if fresh else (),
            laid.globals,
            session,
            repetitions,
            flush,
        )
        with self.exclusive() as held:
            if isinstance(held, Failure):
                return held
            answer = self._worker.ask(request, TIMING_SECONDS, image)
        if isinstance(answer, Failure):
            self._session_contents = {}
            return answer
        if not isinstance(answer, TimeAnswer):
            return Failure("crash", "the GPU worker gave no timing")
        if not math.isfinite(answer.seconds) or answer.seconds * repetitions > answer.wall:
            said = answer.seconds * repetitions
            return Failure("bad-timing", f"events say {said:.3g} s, the clock {answer.wall:.3g} s")
        self._clock_log.add(answer.clock_mhz, answer.throttled)
        return answer.seconds

    def conditions(self) -> tuple[str, ...]:
        """The clocks of the timings since the last call, and what held them down."""
        return self._clock_log.take()

    def clock(self) -> float:
        """The parent's own clock, in seconds."""
        return time.monotonic()

    def target(self) -> str | Failure:
        state = self.state()
        return state if isinstance(state, Failure) else state.name

    # ------------------------------------------------------------------------------------ tools

    def sanitize(self, built: Built, launch: Launch, contents: Contents, checker: str) -> Check:
        """See ``tools.sanitize``."""
        from optiml_core.device.cuda import tools

        return tools.sanitize(self, built, launch, contents, discover(), checker)

    def write_ncu_report(self, built: Built, launch: Launch, contents: Contents, report: Path) -> str | Failure:
        """See ``tools.profile_with_ncu``."""
        from optiml_core.device.cuda import tools

        image = self.image_of(built)
        if image is None:
            return Failure("bad-input", "this variant was built by another device")
        failed = tools.profile_with_ncu(self, built, launch, contents, discover(), report)
        return image.symbol if failed is None else failed

    def _worker_restarted(self) -> bool:
        restarts = self._worker.restarts
        changed = self._seen_restarts != restarts
        self._seen_restarts = restarts
        return changed

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[Failure | None]:
        """Holds the GPU against other processes of ours; may be nested. A comparison holds it from first to last.

        Yields a Failure where the GPU cannot be opened or somebody else keeps it.
        """
        with self._held(shared=False) as held:
            yield held

    @contextlib.contextmanager
    def _held(self, shared: bool) -> Iterator[Failure | None]:
        """``exclusive``, or ``shared`` with other runs that nobody times."""
        if self._holders == 0:
            state = self.state()
            if isinstance(state, Failure):
                yield state
                return
            stack = contextlib.ExitStack()
            if not stack.enter_context(gpu_lock(state.uuid or f"{state.name}-{self._index}", shared=shared)):
                stack.close()
                yield Failure("no-device", f"another search is timing on {state.name}", cure="wait for it or stop it")
                return
            self._lock = stack
        self._holders += 1
        try:
            yield None
        finally:
            self._holders -= 1
            if self._holders == 0 and self._lock is not None:
                self._lock.close()
                self._lock = None

    def close(self) -> None:
        """Ends the worker and gives the GPU's lock back."""
        self._worker.stop()
        if self._lock is not None:
            self._lock.close()
            self._lock = None


@frozen
class LaidOut:
    """A launch's arguments as the worker takes them."""

    parameters: tuple[ParameterBytes, ...]
    buffers: tuple[BufferBytes, ...]
    globals: Mapping[str, bytes]


def lay_out(launch: Launch, contents: Contents) -> LaidOut:
    """Turns arguments and contents into bytes: values at their alignment, buffers shifted and aliased as asked."""
    parameters: list[ParameterBytes] = []
    buffers: list[BufferBytes] = []
    for argument in launch.arguments:
        if isinstance(argument, ScalarArgument):
            value = value_bytes(argument.element, argument.value)
            parameters.append(ParameterBytes(value=value, alignment=argument.element.alignment))
            continue
        assert isinstance(argument, BufferArgument)
        parameters.append(ParameterBytes(buffer=argument.name))
        data = np.ascontiguousarray(contents.buffers[argument.name]).reshape(-1).view(np.uint8)
        shift = contents.offset_of(argument.name) * argument.element.size
        buffers.append(BufferBytes(argument.name, data, shift, contents.aliases.get(argument.name, "")))
    # Aliases need the buffer they share to be there first.
    buffers.sort(key=lambda item: bool(item.alias_of))
    globals_ = {
        argument.name: np.ascontiguousarray(contents.buffers[argument.name]).tobytes()
        for argument in launch.globals
        if argument.name in contents.buffers
    }
    return LaidOut(tuple(parameters), tuple(buffers), globals_)


def value_bytes(element: ElementType, value: Any) -> bytes:
    """A scalar or a plain struct as the bytes a kernel parameter holds."""
    if element.fields:
        out = bytearray(element.size)
        for field in element.fields:
            part = value_bytes(field.element, value.get(field.name, 0) if isinstance(value, Mapping) else 0)
            out[field.offset : field.offset + len(part)] = part
        return bytes(out)
    if element.dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        import ml_dtypes

        dtype: Any = np.dtype(getattr(ml_dtypes, element.dtype))
    else:
        dtype = np.dtype(element.dtype)
    lanes = [value] * element.lanes if not isinstance(value, (list, tuple)) else list(value)
    return np.asarray(lanes).astype(dtype).tobytes()


def restore_shape(data: npt.NDArray[np.uint8], like: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Bytes from the worker as an array of the dtype and shape that went in."""
    return data[: like.nbytes].view(like.dtype).reshape(like.shape)
