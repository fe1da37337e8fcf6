"""How many blocks of a kernel fit on a multiprocessor: NVIDIA's occupancy formula, without a GPU or a driver."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from optiml_core.toolchain.gpu_record import GpuFacts

# cuda_occupancy.h of CUDA 13.0, for 7.5 to 12.x.
_REGISTER_GRANULARITY = 256
_SUB_PARTITIONS = 4
_REGISTERS_PER_THREAD = 256
_UNLIMITED = 1 << 30


@frozen
class Occupancy:
    """Blocks and warps resident on one multiprocessor, and what limits them.

    ``fraction``: resident warps over the most there can be, 0..1. ``limited_by``: the resources that bind, of
    ``"warps"``, ``"blocks"``, ``"registers"``, ``"shared"``, ``"barriers"``. ``block_limits``: blocks that
    each resource alone would allow. 0 blocks: the launch fails.
    """

    blocks: int
    warps: int
    fraction: float
    limited_by: tuple[str, ...]
    block_limits: Mapping[str, int]


def occupancy(gpu: GpuFacts, threads: int, registers: int, shared: int, *, barriers: int = 1) -> Occupancy:
    """The occupancy of a launch, as cuda_occupancy.h of the CUDA 13.0 runtime computes it.

    ``threads`` a block, ``registers`` a thread, ``shared`` bytes a block, static and dynamic together, without what
    the system keeps for itself; ``barriers``: block barriers that the compiler's log names. Shared memory beyond
    48 KiB is taken as opted into, and the carve-out as large as the launch needs.
    """
    major, minor = gpu.compute_capability
    warps_per_block = -(-threads // gpu.warp_size)
    limits = {
        "warps": gpu.warps_per_multiprocessor // warps_per_block if 0 < threads <= gpu.threads_per_block else 0,
        "blocks": gpu.blocks_per_multiprocessor,
        "registers": _blocks_by_registers(gpu, warps_per_block, registers) if threads > 0 else 0,
        "shared": _blocks_by_shared(gpu, shared),
        "barriers": _UNLIMITED,
    }
    if barriers > 0 and major >= 9:
        scarce = (major, minor) in ((10, 1), (11, 0)) or major == 12
        limits["barriers"] = gpu.blocks_per_multiprocessor * (1 if scarce else 2) // barriers
    blocks = min(limits.values())
    warps = blocks * warps_per_block
    return Occupancy(
        blocks=blocks,
        warps=warps,
        fraction=warps / gpu.warps_per_multiprocessor,
        limited_by=tuple(name for name, limit in limits.items() if limit == blocks),
        block_limits=limits,
    )


def _blocks_by_registers(gpu: GpuFacts, warps_per_block: int, registers: int) -> int:
    if registers <= 0:
        return _UNLIMITED
    per_warp = _round_up(registers * gpu.warp_size, _REGISTER_GRANULARITY)
    # The hardware checks a launch as if its warps were spread over all sub-partitions.
    assumed = per_warp * _round_up(warps_per_block, _SUB_PARTITIONS)
    if registers > _REGISTERS_PER_THREAD or assumed > gpu.registers_per_block:
        return 0
    warps = _SUB_PARTITIONS * (gpu.registers_per_multiprocessor // _SUB_PARTITIONS // per_warp)
    return warps // warps_per_block


def _blocks_by_shared(gpu: GpuFacts, shared: int) -> int:
    major, _ = gpu.compute_capability
    allocated = _round_up(shared + gpu.reserved_shared_per_block, 256 if major == 7 else 128)
    if allocated > gpu.shared_per_block_opt_in + gpu.reserved_shared_per_block:
        return 0
    return gpu.shared_per_multiprocessor // allocated if allocated else _UNLIMITED


def _round_up(value: int, granularity: int) -> int:
    return -(-value // granularity) * granularity
