"""The first fence, over a candidate's compiled object: sections, symbols and what it calls.

It catches what the text's fence cannot know, such as initialisers, and whatever slipped through it.
"""

from __future__ import annotations

import re

from optiml_core.device.emulator import build_elf as elf_tables
from optiml_core.device.emulator.build_elf import Elf, Symbol
from optiml_core.device.emulator.build_entry import ENTRY_SYMBOL, TABLE_SYMBOL
from optiml_core.records import Failure

_SECTIONS = re.compile(
    r"|\.(?:text|rodata|data|bss|lrodata|ldata|lbss)(?:\..*)?|\.data\.rel\.ro.*|\.debug_\w+(?:\.\w+)?|\.rela?\..*|\.(?:sym|str|shstr)tab|"
    r"\.symtab_shndx|\.comment|\.note(?:\..*)?|\.eh_frame|\.eh_frame_hdr|\.group|\.llvm_addrsig|"
    r"\.(?:dyn(?:sym|str|amic)|gnu\.hash|hash|gnu\.version(?:_[rd])?|plt(?:\..*)?|got(?:\..*)?|relro_padding|interp)"
)
TSAN_SECTION = re.compile(r"\.init_array\.\d+")

_MATHS = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor fma
    fmax fmin fmod frexp hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf
    nan nearbyint nextafter nexttoward pow remainder remquo rint round roundeven scalbln scalbn sin sincos sinh sqrt
    tan tanh tgamma trunc y0 y1 yn
"""
MATHS = frozenset(name + suffix for name in _MATHS.split() for suffix in ("", "f", "l"))
"""Functions of the C mathematics library: they touch no memory but results the shim passes."""

LIBGCC = re.compile(
    r"__(?:(?:u?div|u?mod|u?divmod|mul|ashl|ashr|lshr|neg|cmp|ucmp|abs|add|sub)[a-z]*[sdt]i[34]|(?:popcount|clz|ctz|ffs|parity|bswap|clrsb)[sdt]i2|"
    r"(?:extend|trunc)[hsdxt]f[hsdxt]f2|trunc[hsdxt]fbf2|extendbfsf2|(?:float|floatun)[sdt]i[hsdxtb]f|(?:fix|fixuns)[hsdxtb]f[sdt]i|"
    r"(?:mul|div)[hsdxt]c3|(?:add|sub|mul|div)[tx]f3|(?:eq|ne|lt|le|gt|ge|unord)[htx]f2|powi[sdxt]f2)"
)

# Tags of the dynamic section (System V ABI) that a candidate's object must not have.
_FORBIDDEN_DYNAMIC = {
    1: "needs another library",
    12: "has an initialiser",
    13: "has a finaliser",
    15: "has a search path",
    22: "has relocations in its code",
    25: "has initialisers",
    26: "has finalisers",
    29: "has a search path",
    32: "has initialisers",
}


def _refused(message: str) -> Failure:
    return Failure("refused", message)


def _check_defined(symbol: Symbol, exported: frozenset[str]) -> Failure | None:
    name = symbol.name
    if symbol.kind == elf_tables.THREAD_SYMBOL:
        return _refused(f"`{name}` is thread-local")
    if symbol.kind == elf_tables.INDIRECT_FUNCTION:
        return _refused(f"`{name}` is resolved by code of its own")
    if name in exported or name in MATHS or name.startswith(("__tsan_", "__ubsan_", "__wrap_", "optiml_emulator_")):
        return _refused(f"`{name}` would replace a function of the emulator")
    if name.startswith("optiml_") and name not in (ENTRY_SYMBOL, TABLE_SYMBOL):
        return _refused(f"`{name}` is a name of the emulator's own")
    if name in ("main", "_init", "_fini", "_start"):
        return _refused(f"`{name}` is not a name for device code")
    return None


def check_object(elf: Elf, exported: frozenset[str]) -> Failure | None:
    """Checks a relocatable object (``candidate.o``). ``exported``: what the worker offers to candidates."""
    for section in elf.sections:
        if TSAN_SECTION.fullmatch(section.name) and section.size == 8:
            continue  # the instrumentation's own; the linker never sees it, see without_instrumentation_start
        if section.flags & elf_tables.THREAD_LOCAL:
            return _refused("the kernel has thread-local variables")
        if section.name.startswith(
            (".init_array", ".fini_array", ".preinit_array", ".ctors", ".dtors", ".init", ".fini")
        ):
            return Failure(
                "unsupported",
                "a variable of the kernel's file needs code to run before the kernel (a dynamic initialiser)",
            )
        if not _SECTIONS.fullmatch(section.name):
            if section.name.startswith(".rela.init_array.") or section.name == ".rela.init_array":
                continue
            return _refused(f"the section `{section.name}` is not on the emulator's list")
        if section.flags & elf_tables.WRITE and section.flags & elf_tables.EXECUTE:
            return _refused(f"the section `{section.name}` is writable and executable")
    for symbol in elf.symbols:
        if symbol.section == elf_tables.UNDEFINED:
            # The linker turns a call of memset into one of __wrap_memset (compile_plan.LINK_FLAGS).
            known = LIBGCC.fullmatch(symbol.name) or f"__wrap_{symbol.name}" in exported
            problem = None if known else _check_undefined(symbol.name, exported)
        else:
            problem = _check_defined(symbol, exported)
        if problem is not None:
            return problem
    return None


def _check_undefined(name: str, exported: frozenset[str]) -> Failure | None:
    if name in exported or name in MATHS or name in ("", "_GLOBAL_OFFSET_TABLE_", "__tsan_init"):
        return None
    return Failure("unsupported", f"the kernel calls `{name}`, which the emulator does not offer to device code")


def check_shared_object(elf: Elf, exported: frozenset[str]) -> Failure | None:
    """Checks the linked object, as it is loaded: no initialiser, no library, no memory both writable and executable."""
    for tag, value in elf.dynamic:
        if tag in _FORBIDDEN_DYNAMIC and value:
            return _refused(f"the compiled kernel {_FORBIDDEN_DYNAMIC[tag]}")
    for segment in elf.segments:
        if segment.kind == elf_tables.LOAD_SEGMENT and segment.flags & 1 and segment.flags & 2:
            return _refused("the compiled kernel has memory that is writable and executable")
        if segment.kind == 7 and segment.file_size:
            return _refused("the compiled kernel has thread-local variables")
        if segment.kind == 0x6474E551 and segment.flags & 1:
            return _refused("the compiled kernel asks for an executable stack")
    if not elf.dynamic:
        return _refused("the compiled kernel is not a shared object")
    for symbol in elf.dynamic_symbols:
        if symbol.kind == elf_tables.INDIRECT_FUNCTION:
            return _refused(f"`{symbol.name}` is resolved by code of its own")
        if symbol.section == elf_tables.UNDEFINED:
            problem = _check_undefined(symbol.name, exported)
            if problem is not None:
                return problem
    return None


def without_instrumentation_start(data: bytes, elf: Elf) -> bytes:
    """``data`` with the access instrumentation's own initialiser (a call of ``__tsan_init``) made inert.

    g++ gives every instrumented object one; the worker needs none, and an object with an initialiser would
    run code while it is loaded. Its section stops being allocated and loses its special type and name.
    """
    changed = bytearray(data)
    table = int.from_bytes(data[40:48], "little")
    names = elf.sections[int.from_bytes(data[62:64], "little")]
    for index, section in enumerate(elf.sections):
        if not TSAN_SECTION.fullmatch(section.name):
            continue
        entry = table + 64 * index
        changed[entry + 4 : entry + 8] = (1).to_bytes(4, "little")  # SHT_PROGBITS
        changed[entry + 8 : entry + 16] = bytes(8)  # no flags: not loaded
        start = data.index(section.name.encode() + b"\0", names.offset)
        changed[start : start + len(section.name)] = b".ignored".ljust(len(section.name), b"_")
    return bytes(changed)
