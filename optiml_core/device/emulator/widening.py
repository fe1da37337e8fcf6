"""The widened build: the same kernel with every float a double, every double a long double, every half a double.

It is the shadow of the original that errors are measured against. The widening is by token on the prepared slice,
line for line. Where the text looks at the bits of a number, or at memory as something other than what it holds, a
wider type would change the meaning, and the build is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from optiml_core.records import Failure

WIDE_TYPES: dict[str, str] = {
    "float": "double",
    **{f"float{n}": f"double{n}" for n in (1, 2, 3, 4)},
    **{f"make_float{n}": f"make_double{n}" for n in (1, 2, 3, 4)},
    "double": "optiml_wide",
    **dict.fromkeys(("half", "__half", "__nv_bfloat16", "nv_bfloat16", "bfloat16", "__half_raw"), "double"),
    **dict.fromkeys(("half2", "__half2", "__nv_bfloat162", "nv_bfloat162"), "double2"),
    **dict.fromkeys(("make_half2", "make_bfloat162"), "make_double2"),
    "double_t": "optiml_wide",
    "float_t": "double",
    "tf32": "optiml_wide_tf32",
}

# Functions of the mathematical library that exist for every width under one name of ours.
_ONE_NAME: tuple[str, ...] = (
    *("sqrt", "rsqrt", "cbrt", "rcbrt", "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh"),
    *("sinpi", "cospi", "floor", "ceil", "round", "rint", "nearbyint", "trunc", "fabs", "erf", "erfc"),
    *("tgamma", "lgamma", "atan2", "pow", "fmod", "remainder", "fmax", "fmin", "fdim", "hypot", "copysign"),
    *("fma", "norm3d", "rnorm3d", "normcdf", "erfinv", "ldexp", "logb"),
)
_SPECIAL: dict[str, str] = {
    **dict.fromkeys(("__expf",), "exp"),
    **dict.fromkeys(("__exp10f",), "exp10"),
    **dict.fromkeys(("__logf",), "log"),
    **dict.fromkeys(("__log2f",), "log2"),
    **dict.fromkeys(("__log10f",), "log10"),
    **dict.fromkeys(("__sinf",), "sin"),
    **dict.fromkeys(("__cosf",), "cos"),
    **dict.fromkeys(("__tanf",), "tan"),
    **dict.fromkeys(("__powf",), "pow"),
    **dict.fromkeys(("__tanhf", "htanh"), "tanh"),
    **dict.fromkeys(("fabsf", "__habs", "h2abs"), "fabs"),
    **dict.fromkeys(("__fdividef", "fdividef", "fdivide", "__fdiv_rn", "__ddiv_rn", "__hdiv"), "divide"),
    **dict.fromkeys(("__fadd_rn", "__dadd_rn", "__hadd", "__hadd_rn", "__hadd2", "__hadd2_rn"), "add"),
    **dict.fromkeys(("__fsub_rn", "__dsub_rn", "__hsub", "__hsub_rn", "__hsub2"), "subtract"),
    **dict.fromkeys(("__fmul_rn", "__dmul_rn", "__hmul", "__hmul_rn", "__hmul2"), "multiply"),
    **dict.fromkeys(("__fmaf_rn", "__fma_rn", "__hfma", "__hfma2", "__ffma_rn"), "fma"),
    **dict.fromkeys(("__frcp_rn", "__drcp_rn", "hrcp", "h2rcp"), "reciprocal"),
    **dict.fromkeys(("__fsqrt_rn", "__dsqrt_rn", "hsqrt"), "sqrt"),
    **dict.fromkeys(("__frsqrt_rn", "hrsqrt"), "rsqrt"),
    **dict.fromkeys(("__saturatef",), "saturate"),
    **dict.fromkeys(("hexp",), "exp"),
    **dict.fromkeys(("hlog",), "log"),
    **dict.fromkeys(("__hneg", "__hneg2"), "negate"),
    **dict.fromkeys(("__hmax", "__hmax2", "max"), "max"),
    **dict.fromkeys(("__hmin", "__hmin2", "min"), "min"),
    **dict.fromkeys(("abs",), "abs"),
    **dict.fromkeys(("__hgt",), "greater"),
    **dict.fromkeys(("__hlt",), "less"),
    **dict.fromkeys(("__hge",), "greater_equal"),
    **dict.fromkeys(("__hle",), "less_equal"),
    **dict.fromkeys(("__heq",), "equal"),
    **dict.fromkeys(
        (
            *("__float2half", "__float2half_rn", "__half2float", "__double2half", "__float2bfloat16"),
            *("__float2bfloat16_rn", "__bfloat162float", "__half22float2", "__float22half2_rn"),
            *("__bfloat1622float2", "__float22bfloat162_rn"),
        ),
        "same",
    ),
    **dict.fromkeys(("__floats2half2_rn", "__halves2half2", "__floats2bfloat162_rn", "make_half2"), "pair"),
    **dict.fromkeys(("__half2half2", "__float2half2_rn", "__bfloat162bfloat162"), "twice"),
    **dict.fromkeys(("__low2float", "__low2half", "__low2bfloat16"), "low"),
    **dict.fromkeys(("__high2float", "__high2half", "__high2bfloat16"), "high"),
    **dict.fromkeys(("__int2float_rn", "__int2half_rn", "__uint2float_rn", "__int2double_rn"), "int_to"),
}
_CALLS: dict[str, str] = {
    **{name: name for name in _ONE_NAME},
    **{f"{name}f": name for name in _ONE_NAME},
    **_SPECIAL,
}

_REFUSED: dict[str, str] = {
    **dict.fromkeys(
        (
            *("__float_as_int", "__int_as_float", "__float_as_uint", "__uint_as_float", "__double_as_longlong"),
            *("__longlong_as_double", "__double2hiint", "__double2loint", "__hiloint2double", "frexp", "frexpf"),
            *("__half_as_ushort", "__ushort_as_half", "__half_as_short", "__short_as_half", "ilogb", "ilogbf"),
            *("nextafter", "nextafterf", "modf", "modff", "__bfloat16_as_ushort", "__ushort_as_bfloat16"),
        ),
        "looks at the bits of a number",
    ),
    **dict.fromkeys(("union", "memcpy", "bit_cast", "__builtin_memcpy"), "may read one type's bytes as another's"),
    **dict.fromkeys(("__nv_fp8_e4m3", "__nv_fp8_e5m2"), "has no wider form"),
    **dict.fromkeys(("__pipeline_memcpy_async", "memcpy_async"), "copies by bytes"),
}

_TOKEN = re.compile(
    r"(?P<skip>//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    r"|(?P<limits>(?:\bstd\s*::\s*)?\bnumeric_limits\s*<\s*(?:float|double)\s*>\s*::\s*\w+\s*\(\s*\))"
    r"|(?P<number>(?<![\w.])(?:0[xX][\da-fA-F.]+(?:[pP][+-]?\d+)?[fF]?|"
    r"(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fFlL]?(?![\w.])))"
    r"|(?P<name>[A-Za-z_]\w*)",
    re.DOTALL,
)
# Memory seen as another type: the elements would no longer lie where the integers, bytes or vectors look for them.
_CAST = re.compile(
    r"reinterpret_cast\s*<\s*(?:const\s+|volatile\s+)*(?P<a>(?:unsigned\s+|signed\s+)?\w+)"
    r"|\(\s*(?:const\s+|volatile\s+)*(?P<b>(?:unsigned\s+|signed\s+)?"
    r"(?:char|short|int|long|unsigned|u?int\d*(?:_t)?|uchar\d?|ushort\d|uint\d|int\d|ulonglong\d?|longlong\d?|void))"
    r"(?:\s+(?:int|long))*\s*(?:const\s*)?\*\s*(?:const\s*)?\)\s*[\w(&]"
)
_FLOATING = re.compile(r"^(?:float|double|half|__half|__nv_bfloat16|nv_bfloat16)\w*$")


def widen(text: str) -> str | Failure:
    """``text`` in wider types, with the same lines. Failure ``unsupported`` names the line that forbids it."""
    bare = _without_comments(text)
    for pattern, reason in ((_CAST, "reads memory as another type"),):
        for match in pattern.finditer(bare):
            target = (match["a"] or match["b"]).split()[-1]
            if not _FLOATING.match(target):
                return _refusal(bare, match.start(), f"`{match[0].strip()}` {reason}")
    defined = set(re.findall(r"\b([A-Za-z_]\w*)\s*\([^;{}()]*(?:\([^()]*\)[^;{}()]*)*\)\s*(?:const\s*)?\{", bare))
    out: list[str] = []
    last = 0
    for match in _TOKEN.finditer(text):
        if match["skip"]:
            continue
        replaced = _replaced(text, match, defined)
        if isinstance(replaced, Failure):
            return replaced
        out += (text[last : match.start()], replaced)
        last = match.end()
    out.append(text[last:])
    return "".join(out)


def widen_arguments(template_arguments: Sequence[str]) -> tuple[str, ...]:
    """Template arguments as the widened kernel takes them."""
    return tuple(
        re.sub(r"[A-Za-z_]\w*", lambda match: WIDE_TYPES.get(match[0], match[0]), argument)
        for argument in template_arguments
    )


def widened_shared(size: int) -> int:
    """Bytes of dynamic shared memory for the widened build: the widest growth there is, half to double."""
    return size * 4


def _replaced(text: str, match: re.Match[str], defined: set[str]) -> str | Failure:
    if match["limits"]:
        # A limit is a constant of the original: it keeps its value.
        return f"(({'double' if 'float' in match['limits'] else 'optiml_wide'}){match['limits']})"
    number = match["number"]
    if number:
        if number[:2] in ("0x", "0X"):
            return number if "p" not in number.lower() else f"((double){number})"
        if number[-1] in "fF":
            # The constant keeps its own rounding; what is computed with it does not.
            return f"((double){number})"
        if number[-1] not in "lL" and ("." in number or "e" in number.lower()):
            return f"((optiml_wide){number})"
        return number
    name = match["name"]
    if name in _REFUSED:
        return _refusal(text, match.start(), f"`{name}` {_REFUSED[name]}")
    if name in WIDE_TYPES:
        # `long double` is as wide as it gets.
        if name == "double" and text[: match.start()].rstrip().endswith("long"):
            return name
        return WIDE_TYPES[name]
    following = text[match.end() : match.end() + 1]
    before = text[: match.start()].rstrip()[-2:]
    if name in _CALLS and name not in defined and following.startswith("(") and before[-1:] != "." and before != "->":
        return f"optiml_wide_{_CALLS[name]}"
    return name


def _without_comments(text: str) -> str:
    return _TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m["skip"] else m[0], text)


def _refusal(text: str, at: int, reason: str) -> Failure:
    line = text.count("\n", 0, at) + 1
    return Failure("unsupported", f"no wider shadow: {reason}", line=line)
