"""Names that a candidate may not introduce: what they do is outside what a run on this device can show.

Narrower arithmetic and approximate intrinsics are refused because their harm depends on values that a test may not
hold; streams, launches, assembly and new headers because they leave the kernel; compiler macros, the clock and the
processor's number because a candidate could behave differently under test. A name that the original uses is never
refused. The text is read after comments and strings are gone; everything else is decided by behaviour.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from attrs import frozen

from optiml_core.verification.tokens import Tokens, tokenize


@frozen
class RefusedNames:
    """A family of names with the reason, and the word of ``--allow`` that permits it, if any does."""

    reason: str
    pattern: re.Pattern[str]
    allow: str | None = None
    # Names that anyone may use for something else, such as `half`: they mean what is refused only with such a header.
    header: re.Pattern[str] | None = None
    # An original that has one name of the family may get others: it computes in that type already.
    once_known: bool = False


_FAMILIES: tuple[RefusedNames, ...] = (
    RefusedNames(
        "half precision, which the original does not use",
        re.compile(
            r"__half2?(?:_raw)?|_Float16|__fp16|__(?:float|double)2half\w*|__floats2half2_rn|make_half2"
            r"|__h(?:add|sub|mul|div|fma|neg|abs)2?(?:_\w+)?|__halves2half2"
        ),
        "narrower",
        once_known=True,
    ),
    RefusedNames(
        "half precision, which the original does not use",
        re.compile(r"half2?|nv_half2?"),
        "narrower",
        header=re.compile(r"fp16|mma"),
        once_known=True,
    ),
    RefusedNames(
        "bfloat16, which the original does not use",
        re.compile(
            r"__nv_bfloat162?(?:_raw)?|__bf16|__(?:float|double)2bfloat16\w*|__floats2bfloat162_rn|make_bfloat162"
        ),
        "narrower",
        once_known=True,
    ),
    RefusedNames(
        "bfloat16, which the original does not use",
        re.compile(r"nv_bfloat162?"),
        "narrower",
        header=re.compile(r"bf16|mma"),
        once_known=True,
    ),
    RefusedNames(
        "8-bit floating point, which the original does not use",
        re.compile(r"__nv_fp8\w*|__nv_fp4\w*|__nv_cvt_\w*fp8\w*"),
        "narrower",
        once_known=True,
    ),
    RefusedNames("TF32 arithmetic", re.compile(r"tf32|__float_to_tf32|\w*_tf32\w*"), "tf32"),
    RefusedNames(
        "an approximate intrinsic that the original does not use",
        re.compile(r"__(?:exp|exp10|log|log2|log10|sin|cos|tan|tanh|pow|sincos)f|__fdividef|__[a-z0-9]+_approx\w*"),
        "fast-math",
    ),
    RefusedNames(
        "an approximate intrinsic that the original does not use",
        re.compile(r"h2?(?:exp|exp2|exp10|log|log2|log10|sin|cos|rcp|rsqrt|tanh|tanh_approx)"),
        "fast-math",
        header=re.compile(r"fp16|bf16"),
    ),
    RefusedNames(
        "arithmetic rounded towards another direction",
        re.compile(
            r"__[fd](?:add|sub|mul|ma|div|rcp|sqrt)_r[zud]"
            r"|__(?:float|double|u?int|u?short|u?ll)2(?:half|bfloat16|float)2?_r[zud]"
        ),
    ),
    RefusedNames(
        "an atomic that other blocks may not see: one order of blocks at a time cannot show it",
        re.compile(r"atomic[A-Z]\w*_block|thread_scope_(?:block|thread)"),
    ),
    RefusedNames(
        "a barrier over the whole grid, which only a cooperative launch has",
        re.compile(r"this_(?:multi_)?grid|(?:multi_)?grid_group|__grid_sync"),
    ),
    RefusedNames(
        "the lanes that happen to run together, which differ from run to run on a GPU",
        re.compile(r"__activemask|coalesced_threads|coalesced_group"),
    ),
    RefusedNames("inline assembly", re.compile(r"asm|__asm|__asm__")),
    RefusedNames("a stream, event or graph", re.compile(r"cuda(?:Stream|Event|Graph)\w*|cu(?:Stream|Event|Graph)\w*")),
    RefusedNames(
        "a call of the CUDA runtime from the device",
        re.compile(r"cuda(?:Launch|Malloc|Free|Memcpy|Memset|Device|Func|Occupancy|CtxReset|GetParameter)\w*"),
    ),
    RefusedNames(
        "the clock, which makes results depend on time",
        re.compile(r"clock(?:64)?|__nanosleep|globaltimer\w*"),
    ),
    RefusedNames(
        "a compiler's or emulator's own name, by which code could tell where it runs",
        re.compile(
            r"__(?:CUDA|NV|NVCC|GNUC|clang|SANITIZE|OPTIML|cuemu|optiml|x86|amd64|LP64|TIME|DATE|TIMESTAMP|FILE|LINE"
            r"|COUNTER|FUNCTION|PRETTY|has|is_identifier|VA_OPT|INCLUDE|BASE_FILE)\w*|__builtin_\w+|__func__|NDEBUG"
            r"|__[A-Z][A-Z0-9_]*__|__cplusplus|_WIN32|_WIN64|_MSC_VER|__APPLE\w*"
            r"|OPTIML\w*|CUEMU\w*|cuemu\w*|optiml_\w*|linux|unix|__linux\w*|__unix\w*"
        ),
    ),
    RefusedNames(
        "an attribute of the host's compiler",
        re.compile(r"__attribute__|__declspec|__attribute|_Pragma"),
    ),
    RefusedNames("token pasting, which hides names", re.compile(r"\#\#")),
)

_HARMLESS_PRAGMAS = ("unroll", "nounroll", "once")
_FAST_MATH_FLAG = re.compile(r"--?(?:use_fast_math|ftz=true|prec-div=false|prec-sqrt=false)")
_DOUBLES = frozenset({"double", "double1", "double2", "double3", "double4"})
_FLOATS = frozenset({"float", "float1", "float2", "float3", "float4"})


def problem(
    original: str,
    candidate: str,
    original_flags: Iterable[str],
    candidate_flags: Iterable[str],
    allow: frozenset[str] = frozenset(),
) -> str | None:
    """The first name, directive or flag of the candidate that is refused, with the reason; None if there is none.

    ``original`` and ``candidate`` are the texts of the two files' device code.
    """
    before, after = tokenize(original), tokenize(candidate)
    return (
        _refused_name(before, after, allow)
        or _refused_directive(before, after)
        or _dropped_width(before, after, allow)
        or _half_arithmetic(before, after, allow)
        or _narrow_integer(before, after, allow)
        or _weaker_fence(before, after)
        or _address_as_number(before, after)
        or _refused_flag(original_flags, candidate_flags, allow)
    )


def _words(tokens: Tokens) -> tuple[str, ...]:
    return (*tokens.code, *(word for directive in tokens.directives for word in directive[1:]))


def _refused_name(before: Tokens, after: Tokens, allow: frozenset[str]) -> str | None:
    known = set(_words(before))
    permitted = [one for one in _FAMILIES if one.allow in allow and one.allow is not None]
    known_reasons = {
        one.reason for one in _FAMILIES if one.once_known and any(one.pattern.fullmatch(word) for word in known)
    }
    headers = "\n".join("".join(one[1:]) for one in after.directives if one[1:2] == ("include",))
    for word in dict.fromkeys(_words(after)):
        if word in known:
            continue
        for family in _FAMILIES:
            if family in permitted or family.reason in known_reasons:
                continue
            if family.header is not None and (family.header.search(headers) is None or _is_variable(word, after.code)):
                continue
            if family.pattern.fullmatch(word):
                cure = f" (opt in with --allow {family.allow})" if family.allow else ""
                return f"`{word}`: {family.reason}{cure}"
    return None


_PLAIN_TYPES = frozenset(
    {"int", "unsigned", "long", "short", "char", "bool", "float", "double", "size_t", "auto", "uint32_t", "int32_t"}
)


def _is_variable(word: str, code: tuple[str, ...]) -> bool:
    """Whether the code declares a variable of that name: then it is no type there."""
    return any(one in _PLAIN_TYPES and other == word for one, other in itertools.pairwise(code))


def _refused_directive(before: Tokens, after: Tokens) -> str | None:
    """New headers, pragmas other than unrolling, and conditions on names that the file itself does not define."""
    known = set(before.directives)
    defined = {directive[2] for directive in after.directives if directive[1:2] == ("define",) and len(directive) > 2}
    for directive in after.directives:
        if directive in known or len(directive) < 2:
            continue
        text = " ".join(directive[1:])
        match directive[1]:
            case "include" | "include_next" | "import" | "embed":
                return f"`#{text}`: a header that the original does not include"
            case "pragma" if len(directive) < 3 or directive[2] not in _HARMLESS_PRAGMAS:
                return f"`#{text}`: a pragma that the original does not use"
            case "if" | "ifdef" | "ifndef" | "elif" | "elifdef" | "elifndef":
                names = [word for word in directive[2:] if word[0].isalpha() or word[0] == "_"]
                foreign = [name for name in names if name not in defined and name not in ("defined", "true", "false")]
                if foreign:
                    return f"`#{text}`: code that depends on `{foreign[0]}`, which the file does not define"
            case "line":
                return f"`#{text}`: it moves the lines that findings are reported at"
            case _:
                pass
    return None


def _dropped_width(before: Tokens, after: Tokens, allow: frozenset[str]) -> str | None:
    """Code that computed in double and no longer names it, or now names float, has become narrower, whatever its
    outputs look like."""
    if "narrower" in allow or not _mentions(before, _DOUBLES):
        return None
    if not _mentions(after, _DOUBLES):
        return "the original computes in `double`, the candidate no longer does (opt in with --allow narrower)"
    if _mentions(after, _FLOATS) and not _mentions(before, _FLOATS):
        return "the original computes in `double` only, the candidate uses `float` (opt in with --allow narrower)"
    doubles, floats = (
        [sum(word in words for word in tokens.code) for tokens in (before, after)] for words in (_DOUBLES, _FLOATS)
    )
    if doubles[1] < doubles[0] and floats[1] > floats[0]:
        return "a `double` of the original became a `float` (opt in with --allow narrower)"
    return None


_HALF_ARITHMETIC = re.compile(r"__h(?:add|sub|mul|div|fma)2?(?:_\w+)?")
_HALF_TO_FLOAT = re.compile(r"__half2float|__half22float2|__(?:low|high)2float|__bfloat16(?:2|22)float2?")


def _half_arithmetic(before: Tokens, after: Tokens, allow: frozenset[str]) -> str | None:
    """An original that only stores in half precision, and converts to float to compute, keeps computing in float."""
    if "narrower" in allow or any(_HALF_ARITHMETIC.fullmatch(word) for word in before.names):
        return None
    if not any(_HALF_TO_FLOAT.fullmatch(word) for word in before.names):
        return None
    found = next((word for word in _words(after) if _HALF_ARITHMETIC.fullmatch(word)), None)
    cure = "(opt in with --allow narrower)"
    return None if found is None else f"`{found}`: the original converts to float before it computes {cure}"


_NARROW_INTEGERS = frozenset({"char", "short", "int8_t", "uint8_t", "int16_t", "uint16_t"})
_WIDE_INTEGERS = frozenset(
    {"long", "size_t", "ssize_t", "ptrdiff_t", "int64_t", "uint64_t", "intptr_t", "uintptr_t", "longlong", "ulonglong"}
)


def _narrow_integer(before: Tokens, after: Tokens, allow: frozenset[str]) -> str | None:
    """A value of a narrower integer type than any of the original's: an index or a count that is right only as long
    as it is small, and sizes that would show it may be too large to be run."""
    if "narrower" in allow:
        return None
    code = after.code
    for at, word in enumerate(code):
        if word not in _NARROW_INTEGERS or word in before.names:
            continue
        one, two = (*[one for one in code[at + 1 : at + 4] if one != "int"], "", "")[:2]
        is_cast = one == ")" and "sizeof" not in code[max(0, at - 3) : at]
        is_cast |= one == ">" and "static_cast" in code[max(0, at - 3) : at]
        is_value = (one[:1].isalpha() or one[:1] == "_") and two in ("=", ";", ",", ")", "{", ":", "(")
        if is_cast or is_value:
            return f"`{word}`: an integer type narrower than the original's (opt in with --allow narrower)"
    return None


def narrower_indexes(before: str, after: str, allow: frozenset[str] = frozenset()) -> str | None:
    """Device code that computed in 64-bit integers and no longer names any: it fails at sizes that are not run."""
    if "narrower" in allow:
        return None
    if _mentions(tokenize(before), _WIDE_INTEGERS) and not _mentions(tokenize(after), _WIDE_INTEGERS):
        return "the original computes in 64-bit integers, the candidate no longer does (opt in with --allow narrower)"
    return None


def _weaker_fence(before: Tokens, after: Tokens) -> str | None:
    """A fence for the block alone, in code that has one for the device: no run shows what other blocks see."""
    if "__threadfence_block" in before.names or not {"__threadfence", "__threadfence_system"} & before.names:
        return None
    if "__threadfence_block" in after.names:
        return "`__threadfence_block`: the original's fence is for all blocks"
    return None


_ADDRESS_ARITHMETIC = frozenset({">>", "<<", "*", "/", "^"})


def _address_as_number(before: Tokens, after: Tokens) -> str | None:
    """An address of which more than the alignment is looked at: it differs from run to run and from machine to
    machine."""
    if _addresses(before.code):
        return None
    found = _addresses(after.code)
    return f"`{found}`: a result that depends on where something lies" if found else None


def _addresses(code: tuple[str, ...]) -> str:
    pointers = {two for one, two in itertools.pairwise(code) if one == "*" or (one == "&" and two[:1].isalpha())}
    for at in range(len(code) - 3):
        if code[at] not in _WIDE_INTEGERS or code[at + 1] != ")":
            continue
        name, following = code[at + 2], code[at + 3]
        if name == "&":
            return f"({code[at]})&{following}"
        if name in pointers and following in _ADDRESS_ARITHMETIC:
            return f"({code[at]}){name} {following}"
    return ""


def _mentions(tokens: Tokens, words: frozenset[str]) -> bool:
    return not words.isdisjoint(_words(tokens))


def _refused_flag(before: Iterable[str], after: Iterable[str], allow: frozenset[str]) -> str | None:
    known = set(before)
    for flag in after:
        if flag not in known and _FAST_MATH_FLAG.fullmatch(flag) and "fast-math" not in allow:
            return f"`{flag}`: arithmetic that the original is not built with (opt in with --allow fast-math)"
    return None
