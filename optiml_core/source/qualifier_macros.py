"""Step c of blanking: macros that stand for qualifiers and nothing else, and macros that make kernels."""

from __future__ import annotations

import re

from optiml_core.source.lexical import blank, closing_bracket
from optiml_core.source.macro_text import MacroText
from optiml_core.source.repairs import Repairs, whole_word, words_pattern

# Names that well-known projects use for qualifiers; they count only where the file does not define them.
WELL_KNOWN_QUALIFIERS: frozenset[str] = frozenset(
    {
        "C10_DEVICE", "C10_HOST", "C10_HOST_DEVICE", "C10_ALWAYS_INLINE", "CUB_RUNTIME_FUNCTION", "CUTE_DEVICE",
        "CUTE_HOST_DEVICE", "CUTE_HOST_RTC", "CUTE_INLINE_CONSTANT", "CUTE_GRID_CONSTANT", "CUTE_UNROLL",
        "CUTE_NO_UNROLL", "CUTLASS_DEVICE", "CUTLASS_GLOBAL", "CUTLASS_HOST_DEVICE", "CUTLASS_GRID_CONSTANT",
        "CUTLASS_PRAGMA_UNROLL", "CUTLASS_PRAGMA_NO_UNROLL", "CUDA_CALLABLE", "CUDA_CALLABLE_MEMBER", "CUDA_HOSTDEV",
        "DEV", "DEVICE", "DEVICE_INLINE", "DEVICE_FUNC", "FORCE_INLINE", "FORCEINLINE", "HOST_DEVICE",
        "HOST_DEVICE_INLINE", "HOSTDEVICE", "INLINE", "NO_OPTIMIZE", "HD", "HDINLINE", "TORCH_CUDA_CU_API",
        "TORCH_API", "THRUST_RUNTIME_FUNCTION", "_CCCL_DEVICE", "_CCCL_HOST_DEVICE", "_CCCL_FORCEINLINE",
        "EIGEN_DEVICE_FUNC", "EIGEN_STRONG_INLINE", "KOKKOS_INLINE_FUNCTION", "CUDAAPI", "WINAPI", "AT_CUDA_API",
        "RESTRICT", "__RESTRICT", "_RESTRICT_", "PRAGMA_UNROLL",
    }
)  # fmt: skip
# A few plain searches are faster than one pattern of all names, and nearly no file has any.
_PARTS = (b"DEV", b"INLINE", b"HOST", b"CUTE_", b"CUTLASS_", b"RESTRICT", b"UNROLL", b"HD", b"CUDA_CALLABLE", b"API",
          b"OPTIMIZE", b"EIGEN_", b"_RUNTIME_")  # fmt: skip
_NAMES_BY_PART = {
    part: tuple(n.encode() for n in sorted(WELL_KNOWN_QUALIFIERS) if part in n.encode()) for part in _PARTS
}
_QUALIFIERS_ONLY = re.compile(
    r"""(?:\s*(?:__device__|__host__|__forceinline__|__noinline__|__inline__|inline|static|extern|"C"|constexpr|
        __restrict__|__restrict|__shared__|__constant__|__attribute__\s*\(\(.*?\)\)|__declspec\s*\(.*?\)|restrict|
        __launch_bounds__\s*\([^()]*\)|__align__\s*\([^()]*\)|alignas\s*\([^()]*\)|__forceinline|\[\[.*?\]\]|
        __grid_constant__|_Pragma\s*\(.*?\)))+\s*""",
    re.VERBOSE,
)
_ATTRIBUTE_LIKE = re.compile(r"\s*(?:__align__|__attribute__|__launch_bounds__|__declspec|alignas)\s*\(.*\)\s*")
_GLOBAL = re.compile(r"\b__global__\b")
_VOID = re.compile(r"\bvoid\b")
_FOLLOWING = re.compile(rb"\s*(\S)")
_ARGUMENTS = re.compile(rb"\s*\(")
_WORD_START = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_~:")


def blank_qualifier_macros(
    skeleton: bytes, macros: tuple[MacroText, ...], repairs: Repairs, global_words: list[int]
) -> None:
    """Blanks the uses of qualifier macros; adds to ``global_words`` those with ``__global__`` in them."""
    bodies = {m.name: m for m in macros}
    names = {name for part in _PARTS if part in skeleton for name in _NAMES_BY_PART[part] if name in skeleton}
    known = frozenset(name.decode() for name in names)
    for match in words_pattern(known).finditer(skeleton) if known else ():
        name = match[0].decode()
        following = _FOLLOWING.match(skeleton, match.end())
        if name not in bodies and whole_word(skeleton, match.start()) and following and following[1][0] in _WORD_START:
            repairs.put(match.start(), b" " * len(name))
    plain = {n for n, m in bodies.items() if m.parameters is None and _is_qualifiers(m.body, bodies)}
    makers = {n: m for n, m in bodies.items() if _GLOBAL.search(m.body) and "{" not in m.body}
    attributes = {n for n, m in bodies.items() if m.parameters is not None and _ATTRIBUTE_LIKE.fullmatch(m.body)}
    own = frozenset(plain | set(makers) | attributes)
    if not own:
        return
    for match in words_pattern(own).finditer(skeleton):
        if not whole_word(skeleton, match.start()):
            continue
        name = match[0].decode()
        if name in plain:
            repairs.put(match.start(), b" " * len(name))
        elif name in attributes:
            opening = _ARGUMENTS.match(skeleton, match.end())
            closing = closing_bracket(skeleton, opening.end() - 1) if opening is not None else None
            if closing is not None:
                repairs.put(match.start(), blank(skeleton[match.start() : closing + 1]))
        elif _make_kernel(skeleton, match.start(), match.end(), makers[name], repairs):
            global_words.append(match.start())


def _is_qualifiers(body: str, bodies: dict[str, MacroText], depth: int = 0) -> bool:
    if body == "":
        return False  # an include guard or a switch; its uses in code are rare and harmless
    if _QUALIFIERS_ONLY.fullmatch(body):
        return True
    if depth > 4:
        return False
    return all(
        (w in bodies and bodies[w].parameters is None and _is_qualifiers(bodies[w].body, bodies, depth + 1))
        or _QUALIFIERS_ONLY.fullmatch(w) is not None
        for w in body.split()
    )


def _make_kernel(skeleton: bytes, start: int, end: int, macro: MacroText, repairs: Repairs) -> bool:
    """``KERNEL name(...)`` or ``KERNEL(name)(...)``: writes ``void`` over the macro where there is room."""
    word = b"void" if _VOID.search(macro.body) is not None else b""
    if macro.parameters is None:
        if len(word) > end - start:
            return False
        repairs.put(start, word.ljust(end - start))
        return True
    opening = _ARGUMENTS.match(skeleton, end)
    closing = closing_bracket(skeleton, opening.end() - 1) if opening is not None else None
    if opening is None or closing is None or not macro.parameters:
        return False
    inside = opening.end()
    argument = skeleton[inside:closing]
    if not macro.body.endswith(macro.parameters[0]) or not re.fullmatch(rb"\s*\w+\s*", argument):
        return False
    if len(word) >= inside - start:
        return False
    repairs.put(start, word.ljust(inside - start) + argument + b" ")
    return True
