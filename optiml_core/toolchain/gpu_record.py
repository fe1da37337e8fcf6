"""The record of one GPU model: what its table entry says and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen


@frozen
class GpuFacts:
    """One GPU model. Rates are operations a second over the whole chip; an FMA counts as two.

    ``clock`` in Hz is the boost clock the rates are computed at. Bandwidths are bytes a second, sizes bytes,
    latencies seconds. ``tensor_rates``: dense operations a second by input type. ``issue_per_cycle``: warp
    instructions a multiprocessor issues a cycle. ``estimated``: names of fields NVIDIA does not publish.
    """

    name: str
    architecture: str  # "sm_90"
    multiprocessors: int
    clock: float
    memory_bytes: int
    dram_bandwidth: float
    l2_bytes: int
    l2_bandwidth: float
    tensor_rates: Mapping[str, float]
    fp32_lanes: int  # results per clock and multiprocessor
    fp64_lanes: int
    fp16_lanes: int
    int32_lanes: int
    special_lanes: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    shared_per_multiprocessor: int
    shared_per_block_opt_in: int
    reserved_shared_per_block: int
    l1_bytes: int  # L1 and shared memory together, per multiprocessor
    l1_bytes_per_cycle: int = 128
    shared_bytes_per_cycle: int = 128  # 32 banks of 4 bytes (Programming Guide, "Shared Memory", every 5.x and later)
    issue_per_cycle: int = 4  # one per scheduler, four schedulers (Programming Guide, "Compute Capability n", 7.5 on)
    registers_per_multiprocessor: int = 65536  # CC, 7.5 to 12.0
    registers_per_thread: int = 255  # CC
    registers_per_block: int = 65536  # CC
    threads_per_block: int = 1024  # CC
    shared_per_block: int = 49152  # CC: without opting in
    warp_size: int = 32
    dram_latency: float = 0.0
    l2_latency: float = 0.0
    launch_overhead: float = 2.5e-6
    estimated: frozenset[str] = frozenset()

    @property
    def compute_capability(self) -> tuple[int, int]:
        """(9, 0) for sm_90."""
        return capability_of(self.architecture)

    @property
    def warps_per_multiprocessor(self) -> int:
        return self.threads_per_multiprocessor // self.warp_size

    @property
    def fp32_rate(self) -> float:
        return 2.0 * self.fp32_lanes * self.multiprocessors * self.clock

    @property
    def fp64_rate(self) -> float:
        return 2.0 * self.fp64_lanes * self.multiprocessors * self.clock

    @property
    def fp16_rate(self) -> float:
        """Half arithmetic outside the tensor cores, two values an instruction."""
        return 2.0 * self.fp16_lanes * self.multiprocessors * self.clock

    @property
    def int32_rate(self) -> float:
        """Integer additions or multiply-adds a second, one each."""
        return 1.0 * self.int32_lanes * self.multiprocessors * self.clock

    @property
    def special_rate(self) -> float:
        """Reciprocals, square roots, sines, exponentials a second."""
        return 1.0 * self.special_lanes * self.multiprocessors * self.clock

    @property
    def issue_rate(self) -> float:
        """Warp instructions a second over the whole chip."""
        return 1.0 * self.issue_per_cycle * self.multiprocessors * self.clock

    @property
    def shared_bandwidth_per_multiprocessor(self) -> float:
        return self.shared_bytes_per_cycle * self.clock

    @property
    def shared_bandwidth(self) -> float:
        """Bytes a second of shared memory over the whole chip, without bank conflicts."""
        return self.shared_bandwidth_per_multiprocessor * self.multiprocessors

    @property
    def l1_bandwidth(self) -> float:
        """Bytes a second of L1 over the whole chip."""
        return self.l1_bytes_per_cycle * self.clock * self.multiprocessors


def capability_of(architecture: str) -> tuple[int, int]:
    """("sm_90" | "sm_90a" | "compute_103f") -> (major, minor). The last digit is the minor number."""
    digits = "".join(character for character in architecture if character.isdigit())
    return int(digits[:-1]), int(digits[-1])
