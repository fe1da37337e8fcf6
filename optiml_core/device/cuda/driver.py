"""What one process needs of the CUDA driver, through PyCUDA: load, launch, copy, time.

Runs in the worker and in the replay processes of ncu and compute-sanitizer, never in the parent. Every error of
the driver becomes a Failure whose kind says whether the context is still usable: after a sticky error
(an illegal address, a trap) nothing in this process can be trusted, and the process must end.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from optiml_core.device.cuda.clocks import ClockReader
from optiml_core.device.cuda.flush import CacheFlush
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
from optiml_core.records import Failure


def driver_failure(error: Exception, during: str, lost: bool) -> Failure:
    """A driver error as a value; ``lost`` says that the context is gone and the process must be replaced."""
    text = str(error)
    kind = "launch-error"
    if lost:
        kind = "sticky-error"
    elif "out of memory" in text.lower():
        kind = "out-of-memory"
    return Failure(kind, f"{during}: {text}")


DIGEST_PIECE = 1 << 20
DIGEST_PIECES = 64


class DeviceBuffer:
    """One allocation with guard zones: ``address`` is what the kernel gets, ``base`` where memory begins."""

    def __init__(self, driver: Any, size: int, guard: int, shift: int) -> None:
        # A whole number of 256-byte lines before the data keeps the alignment of a device allocation.
        self.before = -(-guard // 256) * 256
        self.size = size
        self.total = self.before + shift + size + guard
        self.allocation = driver.mem_alloc(max(self.total, 1))
        self.base = int(self.allocation)
        self.address = self.base + self.before + shift
        self.shift = shift

    def free(self) -> None:
        self.allocation.free()


class Gpu:
    """The context of this process on GPU number ``index`` (within CUDA_VISIBLE_DEVICES)."""

    def __init__(self, index: int) -> None:
        import pycuda.driver as driver

        self._driver = driver
        driver.init()
        self._device = driver.Device(index)
        self._context = self._device.make_context(flags=driver.ctx_flags.SCHED_SPIN)
        self._stream = driver.Stream()
        self._modules: dict[str, tuple[Any, Any, KernelImage]] = {}
        self._sessions: dict[str, dict[str, DeviceBuffer]] = {}
        self._golden: dict[str, dict[str, Any]] = {}
        self._written: dict[str, tuple[str, ...]] = {}
        self._flush: CacheFlush | None = None
        self._warm = ("", "")
        self._clocks = ClockReader(str(self._device.pci_bus_id()))

    def close(self) -> None:
        """Frees everything in the order in which the driver can take it: a context that is still on PyCUDA's stack when
        the process ends makes PyCUDA complain on stderr."""
        for session in list(self._sessions):
            self.end_session(session)
        self._modules.clear()
        self._flush = None
        del self._stream
        self._context.pop()
        self._context.detach()

    def _failure(self, error: Exception, during: str) -> Failure:
        """Asks the context whether it still works: after a trap or a wild store every later call fails too."""
        try:
            self._context.synchronize()
        except self._driver.Error:
            return driver_failure(error, during, lost=True)
        return driver_failure(error, during, lost=False)

    def state(self) -> GpuState:
        driver, device = self._driver, self._device
        major, minor = device.compute_capability()
        version = driver.get_driver_version()
        uuid = ""
        with_uuid = getattr(device, "uuid", None)
        if with_uuid is not None:
            uuid = str(with_uuid() if callable(with_uuid) else with_uuid)
        return GpuState(
            name=device.name(),
            uuid=uuid,
            capability=(major, minor),
            multiprocessors=device.get_attribute(driver.device_attribute.MULTIPROCESSOR_COUNT),
            memory=device.total_memory(),
            l2_bytes=device.get_attribute(driver.device_attribute.L2_CACHE_SIZE),
            driver=f"{version // 1000}.{version % 1000 // 10}",
        )

    # ---------------------------------------------------------------------------------- modules

    def load(self, image: KernelImage) -> Failure | None:
        """Loads a module; a module that is already there stays."""
        if image.token in self._modules:
            return None
        try:
            module = self._driver.module_from_buffer(image.image)
            function = module.get_function(image.symbol)
        except self._driver.Error as error:
            return self._failure(error, "loading the compiled kernel")
        self._modules[image.token] = (module, function, image)
        return None

    def unload(self, token: str) -> None:
        self._modules.pop(token, None)

    def _prepare(self, token: str, launch: LaunchNumbers, globals_: Any) -> Any:
        module, function, image = self._modules[token]
        limit = 48 * 1024 - function.shared_size_bytes
        if launch.shared > limit:
            attribute = self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(attribute, launch.shared)
        for name, data in globals_.items():
            address, size = module.get_global(image.symbols.get(name, name))
            self._driver.memcpy_htod(address, np.frombuffer(data[:size], np.uint8))
        return function

    # ------------------------------------------------------------------------------------- runs

    def run(self, request: RunRequest) -> RunAnswer | Failure:
        """One launch with fresh allocations, so that every run has new addresses."""
        buffers: dict[str, DeviceBuffer] = {}
        try:
            for item in request.buffers:
                if item.alias_of:
                    buffers[item.name] = buffers[item.alias_of]
                    continue
                buffer = DeviceBuffer(self._driver, item.data.nbytes, request.guard, item.shift)
                buffers[item.name] = buffer
                self._driver.memset_d8(buffer.base, request.poison, max(buffer.total, 1))
                if item.data.nbytes:
                    self._driver.memcpy_htod(buffer.address, item.data)
            function = self._prepare(request.token, request.launch, request.globals)
            arguments = argument_buffer(request.parameters, buffers)
            start, end = self._driver.Event(), self._driver.Event()
            began = time.perf_counter()
            start.record(self._stream)
            self._launch(function, request.launch, arguments)
            end.record(self._stream)
            end.synchronize()
            self._context.synchronize()
            wall = time.perf_counter() - began
            seconds = start.time_till(end) * 1e-3
            after, intact = self._read_back(request, buffers)
            globals_after = {}
            module, _, image = self._modules[request.token]
            for name, data in request.globals.items():
                address, size = module.get_global(image.symbols.get(name, name))
                value = np.empty(min(size, len(data)), np.uint8)
                self._driver.memcpy_dtoh(value, address)
                globals_after[name] = value.tobytes()
            return RunAnswer(after, intact, seconds, wall, globals_after)
        except self._driver.Error as error:
            return self._failure(error, "running the kernel")
        finally:
            self._free({id(buffer): buffer for buffer in buffers.values()})

    def _launch(self, function: Any, launch: LaunchNumbers, arguments: bytes) -> None:
        function._launch_kernel(launch.grid, launch.block, arguments, launch.shared, self._stream)

    def _read_back(
        self, request: RunRequest, buffers: dict[str, DeviceBuffer]
    ) -> tuple[dict[str, npt.NDArray[np.uint8]], bool]:
        after: dict[str, npt.NDArray[np.uint8]] = {}
        intact = True
        for item in request.buffers:
            buffer = buffers[item.name]
            whole = np.empty(max(buffer.total, 1), np.uint8)
            self._driver.memcpy_dtoh(whole, buffer.base)
            first = buffer.before + buffer.shift
            after[item.name] = whole[first : first + buffer.size].copy()
            zones = (whole[:first], whole[first + buffer.size : buffer.total])
            intact = intact and all(bool((zone == request.poison).all()) for zone in zones)
        return after, intact

    def _free(self, buffers: dict[int, DeviceBuffer]) -> None:
        for buffer in buffers.values():
            try:
                buffer.free()
            except self._driver.Error:
                return  # The context is lost; the worker is about to be replaced.

    # ----------------------------------------------------------------------------------- timing

    def time(self, request: TimeRequest) -> TimeAnswer | Failure:
        """Times launches by events; what the kernel changes is put back before every launch, outside the span."""
        began = time.perf_counter()
        try:
            buffers = self._session_buffers(request)
            function = self._prepare(request.token, request.launch, request.globals)
            arguments = argument_buffer(request.parameters, buffers)
            written = self._written_inputs(request, function, arguments, buffers)
            if (request.session, request.token) != self._warm:
                # What ran before was something else: its code and data are what the caches hold.
                self._restore(request.session, written, buffers)
                self._launch(function, request.launch, arguments)
                self._warm = (request.session, request.token)
            if written or request.flush:
                total = self._time_one_by_one(request, function, arguments, buffers, written)
            else:
                total = self._time_batch(request, function, arguments)
            self._context.synchronize()
        except self._driver.Error as error:
            return self._failure(error, "timing the kernel")
        return TimeAnswer(total / request.repetitions, time.perf_counter() - began, None, (), bool(written))

    def _session_buffers(self, request: TimeRequest) -> dict[str, DeviceBuffer]:
        if request.session in self._sessions:
            return self._sessions[request.session]
        for session in list(self._sessions):
            self.end_session(session)
        buffers: dict[str, DeviceBuffer] = {}
        golden: dict[str, Any] = {}
        for item in request.buffers:
            if item.alias_of:
                buffers[item.name] = buffers[item.alias_of]
                continue
            buffer = DeviceBuffer(self._driver, item.data.nbytes, 0, item.shift)
            buffers[item.name] = buffer
            golden[item.name] = self._driver.mem_alloc(max(item.data.nbytes, 1))
            if item.data.nbytes:
                self._driver.memcpy_htod(golden[item.name], item.data)
                self._driver.memcpy_dtod(buffer.address, golden[item.name], item.data.nbytes)
        self._sessions[request.session], self._golden[request.session] = buffers, golden
        return buffers

    def _written_inputs(
        self, request: TimeRequest, function: Any, arguments: bytes, buffers: dict[str, DeviceBuffer]
    ) -> tuple[str, ...]:
        """Buffers that a launch changes although they held an input: found by running and looking, once a session.

        What is timed beside the first kernel was verified to leave the same memory behind.
        """
        key = request.session
        if key not in self._written:
            names = tuple(name for name in self._golden[request.session])
            self._restore(request.session, names, buffers)
            self._launch(function, request.launch, arguments)
            first = {name: self._digest(buffers[name]) for name in names}
            self._launch(function, request.launch, arguments)
            second = {name: self._digest(buffers[name]) for name in names}
            # An output that is simply written again comes out the same; what is read and written does not.
            self._written[key] = tuple(name for name in names if first[name] != second[name])
        return self._written[key]

    def _digest(self, buffer: DeviceBuffer) -> bytes:
        import hashlib

        # A large buffer is looked at in evenly spaced pieces: reading gigabytes back would take longer than timing.
        step = max(DIGEST_PIECE, buffer.size // DIGEST_PIECES)
        digest = hashlib.blake2b(digest_size=16)
        for start in range(0, buffer.size, step):
            data = np.empty(min(DIGEST_PIECE, buffer.size - start), np.uint8)
            self._driver.memcpy_dtoh(data, buffer.address + start)
            digest.update(data.tobytes())
        return digest.digest()

    def _restore(self, session: str, names: tuple[str, ...], buffers: dict[str, DeviceBuffer]) -> None:
        for name in names:
            buffer = buffers[name]
            if buffer.size:
                self._driver.memcpy_dtod_async(buffer.address, self._golden[session][name], buffer.size, self._stream)

    def _time_one_by_one(
        self,
        request: TimeRequest,
        function: Any,
        arguments: bytes,
        buffers: dict[str, DeviceBuffer],
        written: tuple[str, ...],
    ) -> float:
        total = 0.0
        pairs = []
        for _ in range(request.repetitions):
            self._restore(request.session, written, buffers)
            if request.flush:
                self._cache_flush().submit(self._stream)
            start, end = self._driver.Event(), self._driver.Event()
            start.record(self._stream)
            self._launch(function, request.launch, arguments)
            end.record(self._stream)
            pairs.append((start, end))
        self._stream.synchronize()
        for start, end in pairs:
            total += start.time_till(end) * 1e-3
        return total

    def _time_batch(self, request: TimeRequest, function: Any, arguments: bytes) -> float:
        from optiml_core.device.cuda.graphs import LaunchGraph

        start, end = self._driver.Event(), self._driver.Event()
        with LaunchGraph(self._stream) as graph:
            graph.capture(lambda: self._launch(function, request.launch, arguments), request.repetitions)
            graph.launch()  # the first launch of a graph uploads it
            self._stream.synchronize()
            start.record(self._stream)
            graph.launch()
            end.record(self._stream)
            end.synchronize()
        return float(start.time_till(end)) * 1e-3

    def _cache_flush(self) -> CacheFlush:
        if self._flush is None:
            self._flush = CacheFlush(self._driver, self.state().l2_bytes)
        return self._flush

    def end_session(self, session: str) -> None:
        """Frees a timing session's buffers."""
        buffers = self._sessions.pop(session, {})
        self._free({id(buffer): buffer for buffer in buffers.values()})
        for allocation in self._golden.pop(session, {}).values():
            allocation.free()
        self._written.pop(session, None)


def argument_buffer(parameters: tuple[ParameterBytes, ...], buffers: dict[str, DeviceBuffer]) -> bytes:
    """The parameters laid out as the driver's parameter buffer: each at its natural alignment."""
    out = bytearray()
    for parameter in parameters:
        if parameter.buffer:
            value, alignment = buffers[parameter.buffer].address.to_bytes(8, "little"), 8
        else:
            value, alignment = parameter.value, parameter.alignment
        out += b"\0" * (-len(out) % alignment)
        out += value
    return bytes(out)


def as_bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """A contiguous array's memory as bytes, without a copy where it is contiguous already."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


__all__ = ["BufferBytes", "Gpu", "argument_buffer", "as_bytes", "driver_failure"]
