"""Reads PTX into the same records as machine code: what the compiler knows before it schedules.

PTX is at hand for every compiled variant, while disassembling takes half a second. Its instructions
have not been put in their final order, so they are scheduled as a data flow (schedule.py). How many
machine instructions an operation becomes is ours, from disassemblies for sm_90. Syntax: NVIDIA's
"Parallel Thread Execution ISA", 9.0.
"""

from __future__ import annotations

import re

from attrs import frozen

from optiml_core.profiling.machine_code.blocks import basic_blocks, natural_loops
from optiml_core.profiling.machine_code.instructions import Instruction, MachineCode, MemoryKind, Space, Unit

_ENTRY = re.compile(r"^\.(?:visible|weak|extern)?\s*\.?entry\s+([\w$]+)", re.M)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)
_LOC = re.compile(r"^\.loc\s+(\d+)\s+(\d+)\s+\d+(?:,\s*function_name\s+[^,]+,\s*inlined_at\s+(\d+)\s+(\d+)\s+\d+)?")
_LABEL = re.compile(r"^([$\w]+):$")
_STATEMENT = re.compile(r"^(?:@(!?%\w+)\s+)?([a-z][\w.:]*)\s*(.*)$", re.S)
_REGISTER = re.compile(r"%[a-zA-Z_]\w*")
_ADDRESS = re.compile(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\d+))?\s*\]")

_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
_TYPE = re.compile(r"\.(?:[usfb]|bf|f)(8|16|32|64|128)(?:x2)?\b")
_SPACES: dict[str, Space] = {"global": "global", "shared": "shared", "local": "local", "const": "constant"}

# Machine instructions beside the one that the unit names: (unit, how many).
_EXPANSIONS: dict[str, tuple[tuple[Unit, int], ...]] = {
    "div.rn.f32": (("special", 1), ("fp32", 7)),
    "div.full.f32": (("special", 1), ("fp32", 4)),
    "div.rn.f64": (("special", 1), ("fp64", 10)),
    "sqrt.rn.f32": (("special", 1), ("fp32", 6)),
    "rcp.rn.f32": (("special", 1), ("fp32", 4)),
    "sqrt.rn.f64": (("special", 1), ("fp64", 10)),
    "div.s32": (("conversion", 2), ("special", 1), ("integer", 14)),
    "div.u32": (("conversion", 2), ("special", 1), ("integer", 12)),
    "rem.s32": (("conversion", 2), ("special", 1), ("integer", 16)),
    "rem.u32": (("conversion", 2), ("special", 1), ("integer", 13)),
    "div.s64": (("special", 2), ("integer", 60)),
    "rem.s64": (("special", 2), ("integer", 62)),
    "div.u64": (("special", 2), ("integer", 50)),
    "rem.u64": (("special", 2), ("integer", 52)),
    # Denormal arguments are scaled before and after.
    "ex2.approx.f32": (("special", 1), ("fp32", 3)),
    "rsqrt.approx.f32": (("special", 1), ("fp32", 3)),
    "lg2.approx.f32": (("special", 1), ("fp32", 3)),
}


def read_ptx(text: str, file: str, symbol: str) -> MachineCode | None:
    """The code of the kernel with the mangled name ``symbol``, or None when the text has no such entry.

    ``file``: the kernel's own file; lines of functions inlined from other files count as the place where they were
    inlined.
    """
    start = next((match.end() for match in _ENTRY.finditer(text) if match.group(1) == symbol), None)
    if start is None:
        return None
    opening = text.find("{", start)
    if opening < 0:
        return None
    own = frozenset(
        number for number, name in _FILE.findall(text) if name.rsplit("/", 1)[-1] == file.rsplit("/", 1)[-1]
    )
    return _read_body(symbol, text[opening + 1 :], own)


def _read_body(symbol: str, text: str, own_files: frozenset[str]) -> MachineCode:
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    not_unrolled: set[str] = set()
    line, depth, pending, label = 0, 0, "", ""
    for raw in text.splitlines():
        stripped = raw.split("//", 1)[0].strip()
        if not stripped:
            continue
        if match := _LOC.match(stripped):
            if match.group(1) in own_files:
                line = int(match.group(2))
            elif match.group(3) in own_files:
                line = int(match.group(4))
            continue
        if stripped.startswith(".pragma") and "nounroll" in stripped:
            not_unrolled.add(label)
            continue
        if match := _LABEL.match(stripped):
            label = match.group(1)
            labels[label] = len(instructions)
            continue
        if not pending and stripped in ("{", "}"):
            depth += 1 if stripped == "{" else -1
            if depth < 0:
                break
            continue
        if not pending and stripped.startswith("."):
            continue  # Declarations of registers and arrays.
        pending += " " + stripped
        while ";" in pending:
            statement, pending = pending.split(";", 1)
            if match := _STATEMENT.match(statement.strip()):
                instructions += _instructions(match.group(1), match.group(2), match.group(3), line)
        pending = pending.strip()
    blocks = basic_blocks(instructions, labels)
    fixed = frozenset(labels[name] for name in not_unrolled if name in labels)
    return MachineCode(symbol, "ptx", tuple(instructions), blocks, natural_loops(blocks), fixed)


@frozen
class _Operands:
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    base: str
    offset: int


def _operands(text: str, writes_first: bool, guard: str | None) -> _Operands:
    """Registers of an instruction: the first operand (a register, or several in braces) is written."""
    address = _ADDRESS.search(text)
    first, rest = "", text
    if writes_first:
        cut = text.find("}") + 1 if text.lstrip().startswith("{") else text.find(",")
        cut = len(text) if cut <= 0 else cut
        first, rest = text[:cut], text[cut:]
    reads = [*_REGISTER.findall(rest), *([guard.lstrip("!")] if guard else [])]
    return _Operands(
        tuple(_REGISTER.findall(first)),
        tuple(reads),
        address.group(1) if address else "",
        int(address.group(2) or 0) if address else 0,
    )


def _instructions(guard: str | None, opcode: str, text: str, line: int) -> list[Instruction]:
    parts = opcode.split(".")
    base = parts[0]
    if base in ("ld", "ldu", "st", "atom", "red", "cp"):
        return _memory(guard, opcode, parts, text, line)
    if base in ("bra", "ret", "exit", "call", "brx"):
        target = text.strip() if base == "bra" else None
        operands = _operands(text, False, guard)
        return [
            Instruction(
                opcode, "control", line, operands.reads, target=target, guarded=guard is not None,
                calls=base == "call", ends=base in ("ret", "exit") and guard is None,
            )
        ]  # fmt: skip
    if base in ("bar", "barrier", "membar", "fence"):
        name = "MEMBAR" if base in ("membar", "fence") else "bar"
        return [Instruction(name, "barrier", line, _operands(text, False, guard).reads)]
    operands = _operands(text, True, guard)
    unit, slots = _unit_and_slots(base, parts, opcode)
    made = [Instruction(opcode, unit, line, operands.reads, operands.writes, slots=slots, guarded=guard is not None)]
    expansion = _EXPANSIONS.get(".".join(part for part in parts if part not in ("ftz", "sat")))
    if expansion is None:
        return made
    # A chain: each step waits for the one before, and the last gives the result.
    made, reads = [], operands.reads
    steps = [step_unit for step_unit, count in expansion for _ in range(count)]
    for number, step_unit in enumerate(steps):
        writes = operands.writes if number == len(steps) - 1 else (f"%step{number}",)
        fences = number == 0 and "rn" in parts and not {"s32", "u32", "s64", "u64"} & set(parts)
        made.append(Instruction(opcode, step_unit, line, reads, writes, fences=fences))
        reads = writes
    return made


def _unit_and_slots(base: str, parts: list[str], opcode: str) -> tuple[Unit, int]:
    kind = parts[-1]
    if base in ("mov", "cvta", "pragma", "isspacep"):
        return "uniform", 0
    if base in ("mma", "wmma", "wgmma"):
        return "tensor", 1 if base == "mma" else 2
    if base in ("shfl", "vote", "match", "redux", "activemask"):
        return "shuffle", 1
    if base == "cvt":
        source, target = (parts[-1], parts[-2]) if len(parts) >= 3 else ("", "")
        if source[:1] in "su" and target[:1] in "su":
            return "integer", 0 if source.endswith("32") and target.endswith("64") else 1
        return ("fp32", 1) if source == target == "f32" else ("conversion", 1)
    if base in ("ex2", "lg2", "rsqrt", "rcp", "sqrt", "sin", "cos", "tanh"):
        return "special", 1
    kinds = set(parts[1:])
    if "f64" in kinds:
        return "fp64", 1
    if kinds & {"f16", "f16x2", "bf16", "bf16x2"}:
        return "fp16", 1
    if "f32" in kinds:
        return "fp32", 1
    wide = kind in ("s64", "u64", "b64") and base in ("add", "sub", "mad", "mul", "shl", "shr", "setp", "selp")
    return "integer", 2 if wide else 1


def _memory(guard: str | None, opcode: str, parts: list[str], text: str, line: int) -> list[Instruction]:
    base = parts[0]
    if base == "cp":
        if "wait_group" in parts or "wait_all" in parts:
            return [Instruction("DEPBAR", "barrier", line)]
        if "commit_group" in parts or "async" not in parts:
            return [Instruction(opcode, "control", line)]
        numbers = re.findall(r"\],\s*(\d+)", text)
        operands = _operands(text, False, guard)
        size = int(numbers[-1]) if numbers else 16
        return [
            Instruction(opcode, "memory", line, operands.reads, memory="load", space="global", size=size,
                        asynchronous=True)
        ]  # fmt: skip
    space_name = next((part.split("::")[0] for part in parts[1:] if part.split("::")[0] in (*_SPACES, "param")), "")
    stores = base in ("st", "red")
    operands = _operands(text, not stores, guard)
    if space_name == "param":
        return [Instruction(opcode, "uniform", line, operands.reads, operands.writes)]
    space: Space = _SPACES.get(space_name, "global")
    found = _TYPE.search(opcode)
    size = _SIZES[found.group(1)] if found else 4
    size *= 2 if "v2" in parts else 4 if "v4" in parts else 1
    memory: MemoryKind = {"ld": "load", "ldu": "load", "st": "store"}.get(base, "atomic")  # type: ignore[assignment]
    return [
        Instruction(
            opcode, "memory", line, operands.reads, operands.writes, memory=memory, space=space, size=size,
            guarded=guard is not None, base=operands.base, offset=operands.offset, read_only="nc" in parts,
        )
    ]  # fmt: skip
