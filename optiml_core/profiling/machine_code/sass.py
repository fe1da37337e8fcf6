"""Reads the text of ``nvdisasm -c -g`` or ``-gi`` into instructions, blocks and loops.

What an opcode does follows NVIDIA's "CUDA Binary Utilities", table "Instruction Set Reference"; which
registers it writes is ours, from reading disassemblies: the first operand, the predicates right
after it, and as many consecutive registers as its width says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from optiml_core.profiling.machine_code.blocks import basic_blocks, natural_loops
from optiml_core.profiling.machine_code.instructions import Instruction, MachineCode, MemoryKind, Space, Unit

_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)")
_LABEL = re.compile(r"^(\.L_x_\d+|[$.\w]+):\s*$")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
_LINE_MARK = re.compile(r'^\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
_REGISTER = re.compile(r"(?<![\w.])(!|-|~|\|)?(UR|R|UP|P)(\d+)((?:\.\w+)*)")
_BRANCH_TARGET = re.compile(r"`\(([^)]+)\)")

_FP32 = ("FADD", "FMUL", "FFMA", "FMNMX", "FSEL", "FSETP", "FSET", "FCHK", "FSWZADD", "FRND", "FCMP")
_FP64 = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")
_FP16 = ("HADD2", "HMUL2", "HFMA2", "HSETP2", "HSET2", "HMNMX2", "HMUL", "HFMA")
_TENSOR = ("HMMA", "IMMA", "DMMA", "BMMA", "HGMMA", "QGMMA", "IGMMA", "OMMA", "QMMA", "UTCHMMA", "UTCQMMA")
_CONVERSION = ("F2F", "F2I", "I2F", "I2FP", "F2FP", "I2I", "FRND")
_BARRIER = ("BAR", "B2R", "R2B", "DEPBAR", "LDGDEPBAR", "ERRBAR", "MEMBAR", "WARPSYNC", "CCTL", "FENCE", "SYNCS")
_CONTROL = ("BRA", "BRX", "JMP", "JMX", "EXIT", "RET", "CALL", "BSSY", "BSYNC", "BREAK", "NOP", "NANOSLEEP", "YIELD",
            "BMOV", "RPCMOV", "KILL", "BPT", "WARPGROUP")  # fmt: skip
_LOADS: dict[str, Space] = {"LDG": "global", "LD": "global", "LDS": "shared", "LDSM": "shared", "LDL": "local"}
_STORES: dict[str, Space] = {"STG": "global", "ST": "global", "STS": "shared", "STSM": "shared", "STL": "local"}
_ATOMICS: dict[str, Space] = {"ATOMG": "global", "ATOM": "global", "RED": "global", "REDG": "global", "ATOMS": "shared"}


def read_sass(text: str, file: str, symbol: str | None = None) -> MachineCode | None:
    """The code of one kernel, or None when the text holds no such ``.text`` section.

    ``file``: the kernel's own file; lines of inlined functions in it count as they are, lines of other
    files as the place they were inlined at. ``symbol``: the mangled name, or None for the first.
    """
    for name, lines in _sections(text):
        if symbol is None or name == symbol:
            return _read_section(name, lines, file)
    return None


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    name, lines = "", list[str]()
    for line in text.splitlines():
        section = _SECTION.match(line)
        if section or line.startswith("//-----"):
            if name:
                yield name, lines
            name, lines = (section.group(1) if section else ""), []
        elif name:
            lines.append(line)
    if name:
        yield name, lines


def _same_file(one: str, other: str) -> bool:
    return one.rsplit("/", 1)[-1] == other.rsplit("/", 1)[-1]


def _read_section(symbol: str, lines: list[str], file: str) -> MachineCode:
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    line_number, chain_open = 0, False
    for text in lines:
        if mark := _LINE_MARK.match(text):
            # A chain of marks goes from the innermost function outwards; the first in our file counts.
            own = int(mark.group(2)) if _same_file(mark.group(1), file) else 0
            if not own and mark.group(4) and _same_file(mark.group(3), file):
                own = int(mark.group(4))
            line_number = line_number if chain_open and line_number else own
            chain_open = True
        elif label := _LABEL.match(text):
            labels[label.group(1)] = len(instructions)
        elif match := _INSTRUCTION.match(text):
            chain_open = False
            instructions.append(_instruction(match.group(1), match.group(2), match.group(3), line_number))
    while instructions and instructions[-1].opcode == "NOP":
        instructions.pop()
    blocks = basic_blocks(instructions, labels)
    return MachineCode(symbol, "sass", tuple(instructions), blocks, natural_loops(blocks))


def _unit(opcode: str, base: str) -> Unit:
    if base in _LOADS or base in _STORES or base in _ATOMICS or base in ("LDGSTS", "UBLKCP", "UTMALDG", "UTMASTG"):
        return "memory"
    if base in _TENSOR:
        return "tensor"
    if base in _BARRIER:
        return "barrier"
    if base in _CONTROL:
        return "control"
    if base == "MUFU":
        return "special"
    if base in ("SHFL", "VOTE", "MATCH", "REDUX"):
        return "shuffle"
    if base in _FP64 or (base in _CONVERSION and ".F64" in opcode):
        return "fp64" if base in _FP64 else "conversion"
    for bases, unit in ((_CONVERSION, "conversion"), (_FP32, "fp32"), (_FP16, "fp16")):
        if base in bases:
            return unit  # type: ignore[return-value]
    if base.startswith("U") and base not in ("UIADD3",):
        return "uniform"
    if base in ("S2R", "CS2R", "LDC", "S2UR", "R2UR"):
        return "uniform"
    if base in ("IMAD", "MOV") and ".MOV" in opcode:
        return "fp32"  # A move through the multiply-add pipe.
    return "integer"


def unit_of(opcode: str) -> Unit:
    """The pipe that executes an opcode, with or without its modifiers."""
    return _unit(opcode, opcode.split(".")[0])


def access_of(opcode: str) -> tuple[MemoryKind, Space, int] | None:
    """What a memory instruction does, where, and bytes a lane; None for another one. An asynchronous copy from global
    to shared memory counts as the load that it is."""
    base = opcode.split(".")[0]
    if base == "LDGSTS":
        return "load", "global", _access_size(opcode)
    tables: tuple[tuple[MemoryKind, dict[str, Space]], ...] = (
        ("load", _LOADS), ("store", _STORES), ("atomic", _ATOMICS)
    )  # fmt: skip
    return next(((kind, table[base], _access_size(opcode)) for kind, table in tables if base in table), None)


def _operands(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in text:
        if character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    if current.strip():
        parts.append(current.strip())
    return parts


def _names(operand: str, words: int = 1) -> list[str]:
    """Register names of one operand; ``words`` registers where it has no ``.64`` mark of its own."""
    names = []
    for match in _REGISTER.finditer(operand):
        kind, number, suffix = match.group(2), int(match.group(3)), match.group(4)
        span = 1 if kind in ("P", "UP") else max(2 if ".64" in suffix else 1, words)
        names += [f"{kind}{number + offset}" for offset in range(span)]
    return names


def _access_size(opcode: str) -> int:
    parts = opcode.split(".")
    for suffix, size in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("16", 2), ("U8", 1), ("S8", 1), ("8", 1)):
        if suffix in parts:
            return size
    if parts[0] in ("LDSM", "STSM"):
        return 4 * next((int(part) for part in parts if part in ("2", "4")), 1)
    return 8 if "F64" in parts or "F32x2" in parts else 4


def _written_words(opcode: str, base: str, size: int) -> int:
    if size:
        return max(1, size // 4)
    if base in _FP64 and base != "DSETP":
        return 2
    if base in ("HMMA", "IMMA", "DMMA", "QMMA"):
        return 4 if ".F32" in opcode or base in ("IMMA", "DMMA") else 2
    wide = ".WIDE" in opcode or base == "CS2R" or (".F64." in opcode + "." and base in ("F2F", "I2F"))
    return 2 if wide or opcode.endswith((".64", ".U64", ".S64")) else 1


def _instruction(guard: str | None, opcode: str, operand_text: str, line: int) -> Instruction:
    base = opcode.split(".")[0]
    unit = _unit(opcode, base)
    operands = _operands(operand_text)
    memory: MemoryKind | None = None
    space: Space | None = None
    size = 0
    asynchronous = base in ("LDGSTS", "UBLKCP", "UTMALDG", "UTMASTG")
    if base in _LOADS:
        memory, space, size = "load", _LOADS[base], _access_size(opcode)
    elif base in _STORES:
        memory, space, size = "store", _STORES[base], _access_size(opcode)
    elif base in _ATOMICS:
        memory, space, size = "atomic", _ATOMICS[base], _access_size(opcode)
    elif base == "LDGSTS":
        memory, space, size = "load", "global", _access_size(opcode)
    writes: list[str] = []
    reads: list[str] = [guard.lstrip("@!")] if guard else []
    no_result = memory == "store" or base in ("RED", "REDG") or asynchronous or unit in ("control", "barrier")
    first_source = 0
    if operands and not no_result:
        words = _written_words(opcode, base, size)
        writes += _names(operands[0], words)
        first_source = 1
        predicate_first = re.fullmatch(r"U?P(\d|T)", operands[0]) is not None
        if predicate_first and base in ("SHFL", "ATOMG", "ATOM", "ATOMS", "MATCH") and len(operands) > 1:
            writes += _names(operands[1], words)
            first_source = 2
        while first_source < min(3, len(operands)) and re.fullmatch(r"U?P(\d|T)", operands[first_source]):
            writes += _names(operands[first_source])
            first_source += 1
    for position, operand in enumerate(operands[first_source:], first_source):
        words = 2 if base in _FP64 else 1
        if memory in ("store", "atomic") and position == len(operands) - 1:
            words = max(1, size // 4)
        if base in ("HMMA", "IMMA", "QMMA") and position >= 1:
            words = 4 if position == 1 or position == 3 else 2
        if ".WIDE" in opcode and position == 3:
            words = 2
        reads += _names(operand, words)
    target = None
    calls = base == "CALL"
    if base in ("BRA", "JMP", "CALL") and (goal := _BRANCH_TARGET.search(operand_text)):
        target = goal.group(1)
    guarded = guard is not None or (base == "BRA" and any(re.fullmatch(r"!?U?P\d", part) for part in operands[:-1]))
    return Instruction(
        opcode=opcode, unit=unit, line=line, reads=tuple(reads), writes=tuple(writes), memory=memory, space=space,
        size=size, asynchronous=asynchronous, target=target, guarded=guarded, calls=calls,
        ends=base in ("EXIT", "RET") and guard is None,
    )  # fmt: skip
