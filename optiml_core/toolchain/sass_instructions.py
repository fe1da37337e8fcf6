"""What one machine instruction does, by its name, for Turing to Blackwell.

Names are those of "CUDA Binary Utilities", section "Instruction Set Reference". An unknown one is ``other``.
"""

from __future__ import annotations

import re

_CLASSES: tuple[tuple[str, str], ...] = (
    ("async_copy", r"LDGSTS|LDGDEPBAR|UTMA\w*|UBLKCP|ARRIVES|SYNCS"),
    ("global_load", r"LDG"),
    ("global_store", r"STG"),
    ("shared_load", r"LDS|LDSM"),
    ("shared_store", r"STS|STSM"),
    ("local_load", r"LDL"),
    ("local_store", r"STL"),
    ("generic_load", r"LD"),
    ("generic_store", r"ST"),
    ("constant_load", r"LDC|ULDC|LDCU"),
    ("atomic", r"ATOM|ATOMG|ATOMS|RED|REDG|REDAS?|UREDG?|CREDUX"),
    ("texture", r"TEX|TLD|TLD4|TXD|TXQ|TMML|SULD|SUST|SURED|SUATOM"),
    ("shuffle", r"SHFL"),
    ("vote", r"VOTEU?|MATCH|REDUX|ELECT"),
    ("barrier", r"BAR|B2R|BARSYNC|UCGABAR_\w+"),
    ("fence", r"MEMBAR|FENCE|ERRBAR|CCTL\w*"),
    ("matrix", r"HMMA|IMMA|DMMA|BMMA|QMMA|OMMA|HGMMA|QGMMA|IGMMA|BGMMA|UTC\w*MMA|WARPGROUP|MOVM"),
    ("fp64", r"DADD|DMUL|DFMA|DSETP|DMNMX"),
    ("special", r"MUFU"),
    ("fp32", r"FADD2?|FMUL2?|FFMA2?|FFMA32I|FADD32I|FMUL32I|FSETP?|FMNMX3?|FSEL|FCHK|FSWZADD|RRO"),
    ("fp16", r"HADD2|HMUL2|HFMA2|HSETP?2|HMNMX2|HADD2_32I|HMUL2_32I|HFMA2_32I"),
    ("convert", r"F2F|F2I|I2F|I2I|F2FP|I2FP|F2IP|I2IP|FRND"),
    (
        "integer",
        r"IADD3?|UIADD3|IADD|VIADD\w*|IMAD|UIMAD|IMUL|ISETP|UISETP|IMNMX3?|VIMNMX3?|UIMNMX|IABS|LEA|ULEA|LOP3?|ULOP3|SHF|USHF|SHL|SHR|USHL|USHR"
        r"|BREV|UBREV|POPC|UPOPC|FLO|UFLO|BMSK|UBMSK|SGXT|USGXT|IDP\w*|ISCADD|SEL|USEL|PRMT|UPRMT|VABSDIFF4?|PLOP3|UPLOP3|XMAD|IDE",
    ),
    ("move", r"MOV|UMOV|S2R|S2UR|R2UR|CS2R|CS2UR|P2R|R2P|UP2UR|UR2P|PSETP|PSET|LEPC|GETLMEMBASE|R2B|VOTE_VTG"),
    (
        "branch",
        r"BRA|BRX|BRXU|JMP|JMX|JMXU|CALL|RET|EXIT|BSSY|BSYNC|BREAK|BMOV|WARPSYNC|YIELD|KILL|BPT|RPCMOV|NANOSLEEP",
    ),
    ("none", r"NOP|DEPBAR|ACQBULK|PREEXIT|ENDCOLLECTIVE|SETCTAID|SETLMEMBASE|PMTRIG|USETMAXREG"),
)
_BY_NAME = re.compile("|".join(f"(?P<{name}>(?:{pattern}))" for name, pattern in _CLASSES))
_ONLY_CONSTANTS = re.compile(r"\s*-?RZ, ?-?RZ,")
_WIDTHS = ((".128", 16), (".96", 12), (".64", 8), (".U8", 1), (".S8", 1), (".U16", 2), (".S16", 2), (".256", 32))
_SIZED = frozenset(
    {
        "global_load",
        "global_store",
        "shared_load",
        "shared_store",
        "local_load",
        "local_store",
        "generic_load",
        "generic_store",
        "async_copy",
        "atomic",
    }
)

INSTRUCTION_CLASSES: tuple[str, ...] = (*(name for name, _ in _CLASSES), "other")


def instruction_class(opcode: str, operands: str) -> str:
    """The class of an instruction; ``opcode`` with its modifiers (``LDG.E.128``), ``operands`` as text."""
    name = opcode.split(".", 1)[0]
    found = _BY_NAME.fullmatch(name)
    kind = found.lastgroup if found is not None else None
    if kind in ("fp16", "integer") and _ONLY_CONSTANTS.match(operands.split(",", 1)[-1].lstrip() + ","):
        # ``HFMA2.MMA R0, -RZ, RZ, 0, 0`` and ``IMAD.MOV.U32 R0, RZ, RZ, R5`` move a value through another pipe.
        return "move"
    if name == "IMAD" and ".MOV" in opcode:
        return "move"
    return kind or "other"


def access_bytes(kind: str, opcode: str) -> int | None:
    """Bytes a lane that a memory instruction moves; None if it is none. Matrix loads count the bytes a lane gets."""
    if kind not in _SIZED:
        return None
    if opcode.startswith(("LDSM", "STSM")):
        # .M88 moves one 8 x 8 matrix of 16-bit elements, .2 and .4 as many of them: 4 bytes a lane each.
        return 16 if opcode.endswith(".4") else 8 if opcode.endswith(".2") else 4
    for modifier, size in _WIDTHS:
        if modifier in f".{opcode.split('.', 1)[-1]}." and re.search(re.escape(modifier) + r"(?:\.|$)", opcode):
            return size
    return 4
