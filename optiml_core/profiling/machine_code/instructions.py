"""Records of compiled code, whichever assembly it was read from (SASS or PTX)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

# The pipe that executes an instruction. "uniform" and "control" only take an issue slot.
Unit = Literal[
    "fp32", "fp64", "fp16", "integer", "special", "conversion", "tensor", "memory", "shuffle", "barrier",
    "control", "uniform",
]  # fmt: skip
MemoryKind = Literal["load", "store", "atomic"]
Space = Literal["global", "shared", "local", "constant"]


@frozen
class Instruction:
    """One machine instruction.

    ``line`` is the innermost line in the kernel's own file, 0 where unknown. ``reads`` and ``writes``
    name registers and predicates, one name per 32 bits. ``size`` is bytes per lane of a memory
    instruction. ``target`` is the label a branch goes to. ``guarded``: runs under a predicate.
    """

    opcode: str
    unit: Unit
    line: int
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    memory: MemoryKind | None = None
    space: Space | None = None
    size: int = 0
    asynchronous: bool = False  # a copy that no register waits for (LDGSTS, bulk copies)
    target: str | None = None
    guarded: bool = False
    calls: bool = False
    ends: bool = False  # EXIT or RET without a predicate: nothing follows
    slots: int = 1  # issue slots; 0 for what later steps of the compiler remove
    base: str = ""  # PTX: the register that an address is counted from, and how far
    offset: int = 0
    fences: bool = False  # PTX: becomes code with a rare branch, above which nothing later is moved
    read_only: bool = False  # a load that no store can change (ld.global.nc)


@frozen
class CodeBlock:
    """A basic block: instructions ``start`` to ``end`` (half-open), with the blocks that can follow."""

    start: int
    end: int
    successors: tuple[int, ...]


@frozen
class CodeLoop:
    """A natural loop by its back edge: ``blocks`` with the inner loops' blocks, ``parent`` loop or None."""

    header: int
    blocks: frozenset[int]
    parent: int | None
    depth: int


@frozen
class MachineCode:
    """One kernel's code. ``origin`` says how much to believe of its order: SASS is what runs, PTX is not."""

    symbol: str
    origin: Literal["sass", "ptx"]
    instructions: tuple[Instruction, ...]
    blocks: tuple[CodeBlock, ...]
    loops: tuple[CodeLoop, ...] = field(factory=tuple)
    not_unrolled: frozenset[int] = frozenset()  # PTX: starts of blocks that the last step must not unroll

    def loop_of_block(self, block: int) -> int | None:
        """The innermost loop around a block."""
        found: int | None = None
        for index, loop in enumerate(self.loops):
            if block in loop.blocks and (found is None or loop.depth > self.loops[found].depth):
                found = index
        return found
