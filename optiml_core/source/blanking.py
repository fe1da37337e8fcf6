"""Text of the same length that tree-sitter's CUDA grammar reads better than the file itself.

The grammar stumbles over constructs that real files are full of. Each is replaced by blanks (or by
a character of the same width), so that every byte offset of the tree is an offset of the file.
"""

from __future__ import annotations

import re
from functools import lru_cache

from attrs import frozen

from optiml_core.source.lexical import LexicalScan, blank, closing_bracket

# Step a: attributes that carry an argument list ...
_WITH_ARGUMENTS = (
    rb"__align__|alignas|__attribute__|__launch_bounds__|__cluster_dims__|__block_size__|__maxnreg__|__declspec|_Pragma"
)
# ... and words that may stand where the grammar does not expect them.
_WORDS = rb"__restrict__|__restrict|__grid_constant__|CUDART_CB|__extension__|__cdecl|__stdcall"
_STEP_A = re.compile(rb"\b(?:(" + _WITH_ARGUMENTS + rb")\b|(" + _WORDS + rb")\b)")
_TYPENAME_OBJECT = re.compile(rb"\btypename\b(?=\s+[\w:]+(?:\s*<[^;{}()]*>(?:\s*::\s*\w+)*)?\s*[({])")
_LAMBDA_ATTRIBUTES = re.compile(rb"\](\s*(?:__(?:device|host|forceinline|noinline)__\s*)+)(?=[({]|mutable\b)")
_PRAGMA = "pragma"

# Step c: macros of well-known projects that stand for qualifiers and nothing else.
WELL_KNOWN_QUALIFIERS: frozenset[str] = frozenset(
    {
        "C10_DEVICE", "C10_HOST", "C10_HOST_DEVICE", "C10_ALWAYS_INLINE", "CUB_RUNTIME_FUNCTION", "CUTE_DEVICE",
        "CUTE_HOST_DEVICE", "CUTLASS_DEVICE", "CUTLASS_GLOBAL", "CUTLASS_HOST_DEVICE", "CUDA_CALLABLE",
        "CUDA_CALLABLE_MEMBER", "CUDA_HOSTDEV", "DEV", "DEVICE", "DEVICE_INLINE", "DEVICE_FUNC", "FORCE_INLINE",
        "FORCEINLINE", "HOST_DEVICE", "HOST_DEVICE_INLINE", "HOSTDEVICE", "INLINE", "NO_OPTIMIZE", "HD", "HDINLINE",
        "TORCH_CUDA_CU_API", "TORCH_API", "THRUST_RUNTIME_FUNCTION", "_CCCL_DEVICE", "_CCCL_HOST_DEVICE",
        "_CCCL_FORCEINLINE", "EIGEN_DEVICE_FUNC", "EIGEN_STRONG_INLINE", "KOKKOS_INLINE_FUNCTION", "CUDAAPI",
        "WINAPI", "AT_CUDA_API",
    }
)  # fmt: skip
_QUALIFIERS_ONLY = re.compile(
    r"""(?:\s*(?:__device__|__host__|__forceinline__|__noinline__|__inline__|inline|static|extern|"C"|constexpr|
        __restrict__|__restrict|__shared__|__constant__|__attribute__\s*\(\(.*?\)\)|__declspec\s*\(.*?\)|
        __launch_bounds__\s*\([^()]*\)|__align__\s*\([^()]*\)|alignas\s*\([^()]*\)|__forceinline|\[\[.*?\]\]))+\s*""",
    re.VERBOSE,
)
_ATTRIBUTE_LIKE = re.compile(r"\s*(?:__align__|__attribute__|__launch_bounds__|__declspec|alignas)\s*\(.*\)\s*")
_DEFINE = re.compile(r"([A-Za-z_]\w*)(\(([^)]*)\))?\s*(.*)", re.DOTALL)
_GLOBAL = re.compile(r"\b__global__\b")
# Step b: a line that starts with something like a call.
_LINE_CALL = re.compile(rb"^[ \t]*([A-Za-z_]\w*)[ \t]*\(", re.MULTILINE)
_NOT_A_MACRO = frozenset(
    b"if while for switch return sizeof catch else do case throw new delete alignof decltype operator static_assert "
    b"defined noexcept asm __asm__ __asm".split()
)
_NEXT = re.compile(rb"\s*(?:([A-Za-z_#]\w*)|(\S))")
_NOT_AFTER_A_STATEMENT = frozenset(b"const noexcept override final try throw requires and or not xor volatile".split())
_ALL_CAPITALS = re.compile(rb"[A-Z_][A-Z0-9_]{2,}")


@frozen
class MacroText:
    """A ``#define`` as far as blanking needs it: parameters None for an object-like macro."""

    name: str
    parameters: tuple[str, ...] | None
    body: str
    start: int
    end: int


@frozen
class Blanked:
    """``text``: what the grammar reads. ``skeleton``: the code only (see lexical), with the same repairs.

    ``global_words``: offsets at which a ``__global__`` stands, or a macro that contains one.
    """

    text: bytes
    skeleton: bytes
    global_words: tuple[int, ...]
    macros: tuple[MacroText, ...]


def read_macros(scan: LexicalScan) -> tuple[MacroText, ...]:
    """Every ``#define`` of the file, in order."""
    found: list[MacroText] = []
    for directive in scan.directives:
        if directive.word != "define":
            continue
        match = _DEFINE.match(directive.text)
        if match is None:
            continue
        parameters = None
        if match[2] is not None:
            parameters = tuple(p.strip() for p in match[3].split(",") if p.strip())
        found.append(MacroText(match[1], parameters, match[4].strip(), directive.start, directive.end))
    return tuple(found)


@lru_cache(maxsize=256)
def _words_pattern(words: frozenset[str]) -> re.Pattern[bytes]:
    return re.compile(rb"\b(?:" + b"|".join(sorted(re.escape(w.encode()) for w in words)) + rb")\b")


_WELL_KNOWN = _words_pattern(WELL_KNOWN_QUALIFIERS)
_GLOBAL_WORD = re.compile(rb"\b__(?:tile_)?global__\b")


class _Repairs:
    """Replacements of equal length, collected and then applied to text and skeleton alike."""

    def __init__(self) -> None:
        self.items: dict[int, bytes] = {}

    def put(self, start: int, replacement: bytes) -> None:
        self.items[start] = replacement

    def apply(self, data: bytes) -> bytes:
        if not self.items:
            return data
        out = bytearray(data)
        for start, replacement in self.items.items():
            out[start : start + len(replacement)] = replacement
        return bytes(out)


def blanked(data: bytes, scan: LexicalScan) -> Blanked:
    """Steps a to c: see the functions below. The results have the length of ``data``."""
    macros = read_macros(scan)
    repairs = _Repairs()
    skeleton = scan.skeleton
    if data.startswith(b"\xef\xbb\xbf"):
        repairs.put(0, b"   ")
    _blank_attributes(skeleton, repairs)
    for span in scan.spans:
        if span.kind == "inactive":
            repairs.put(span.start, blank(data[span.start : span.end]))
    for directive in scan.directives:
        if directive.word == _PRAGMA:
            repairs.put(directive.start, blank(data[directive.start : directive.end]))
    global_words = [m.start() for m in _GLOBAL_WORD.finditer(skeleton)]
    _qualifier_macros(skeleton, macros, repairs, global_words)
    skeleton = repairs.apply(skeleton)
    statements = _Repairs()
    _end_macro_statements(data, skeleton, frozenset(m.name for m in macros if m.parameters is not None), statements)
    text = statements.apply(repairs.apply(data))
    return Blanked(text, statements.apply(skeleton), tuple(sorted(set(global_words))), macros)


def _blank_attributes(skeleton: bytes, repairs: _Repairs) -> None:
    """Step a: alignment, launch bounds, attributes, restrict, and attributes of lambdas."""
    for match in _STEP_A.finditer(skeleton):
        end = match.end()
        if match[1] is not None:
            opening = _NEXT.match(skeleton, end)
            if opening is None or opening[2] != b"(":
                continue
            closing = closing_bracket(skeleton, opening.start(2))
            if closing is None:
                continue
            end = closing + 1
        repairs.put(match.start(), blank(skeleton[match.start() : end]))
    if b"typename" in skeleton:
        for match in _TYPENAME_OBJECT.finditer(skeleton):
            repairs.put(match.start(), b" " * 8)
    for match in _LAMBDA_ATTRIBUTES.finditer(skeleton):
        repairs.put(match.start(1), blank(match[1]))


def _qualifier_macros(
    skeleton: bytes, macros: tuple[MacroText, ...], repairs: _Repairs, global_words: list[int]
) -> None:
    """Step c: macros that stand for qualifiers only. One with ``__global__`` in it also marks a kernel."""
    own = {m.name for m in macros}
    known = WELL_KNOWN_QUALIFIERS - own
    if _WELL_KNOWN.search(skeleton):
        for match in _words_pattern(frozenset(known)).finditer(skeleton):
            following = _NEXT.match(skeleton, match.end())
            if following is not None and (following[1] is not None or following[2] in (b"~", b":")):
                repairs.put(match.start(), b" " * (match.end() - match.start()))
    bodies = {m.name: m for m in macros}
    plain = {n for n, m in bodies.items() if m.parameters is None and _is_qualifiers(m.body, bodies)}
    makers = {n: m for n, m in bodies.items() if _GLOBAL.search(m.body) and "{" not in m.body}
    attributes = {n for n, m in bodies.items() if m.parameters is not None and _ATTRIBUTE_LIKE.fullmatch(m.body)}
    names = frozenset(plain | set(makers) | attributes)
    if not names:
        return
    for match in _words_pattern(names).finditer(skeleton):
        name = match[0].decode()
        if name in plain:
            repairs.put(match.start(), b" " * (match.end() - match.start()))
        elif name in attributes:
            opening = _NEXT.match(skeleton, match.end())
            closing = closing_bracket(skeleton, opening.start(2)) if opening and opening[2] == b"(" else None
            if closing is not None:
                repairs.put(match.start(), blank(skeleton[match.start() : closing + 1]))
        elif _kernel_maker(skeleton, match.start(), match.end(), makers[name], repairs):
            global_words.append(match.start())


def _is_qualifiers(body: str, bodies: dict[str, MacroText], depth: int = 0) -> bool:
    if body == "":
        return False  # an include guard or a switch; its uses in code are rare and harmless
    if _QUALIFIERS_ONLY.fullmatch(body):
        return True
    if depth > 4:
        return False
    words = body.split()
    return all(
        (w in bodies and bodies[w].parameters is None and _is_qualifiers(bodies[w].body, bodies, depth + 1))
        or _QUALIFIERS_ONLY.fullmatch(w) is not None
        for w in words
    )


def _kernel_maker(skeleton: bytes, start: int, end: int, macro: MacroText, repairs: _Repairs) -> bool:
    """``KERNEL name(...)`` or ``KERNEL(name)(...)``: writes ``void`` over the macro where there is room."""
    has_void = re.search(r"\bvoid\b", macro.body) is not None
    word = b"void" if has_void else b""
    if macro.parameters is None:
        if len(word) > end - start:
            return False
        repairs.put(start, word.ljust(end - start))
        return True
    opening = _NEXT.match(skeleton, end)
    if opening is None or opening[2] != b"(":
        return False
    inside = opening.start(2) + 1
    closing = closing_bracket(skeleton, inside - 1)
    if closing is None:
        return False
    argument = skeleton[inside:closing]
    if not macro.body.endswith(macro.parameters[0]) or not re.fullmatch(rb"\s*\w+\s*", argument):
        return False
    if len(word) >= inside - start:
        return False
    repairs.put(start, word.ljust(inside - start) + argument + b" ")
    return True


def _end_macro_statements(data: bytes, skeleton: bytes, own: frozenset[str], repairs: _Repairs) -> None:
    """Step b: a macro call that stands alone gets the ``;`` it lacks, in place of the blank behind it."""
    length = len(skeleton)
    for match in _LINE_CALL.finditer(skeleton):
        name = match[1]
        if name in _NOT_A_MACRO or not (_ALL_CAPITALS.fullmatch(name) or name.decode() in own):
            continue
        before = skeleton[max(0, match.start(1) - 4096) : match.start(1)].rstrip()
        if before and before[-1] not in b";{}:":
            continue
        closing = closing_bracket(skeleton, match.end() - 1)
        if closing is None or closing + 1 >= length:
            continue
        following = _NEXT.match(skeleton, closing + 1)
        if following is None or following.start() != closing + 1:
            continue
        word, sign = following[1], following[2]
        if word in _NOT_AFTER_A_STATEMENT or (sign is not None and sign not in b"}~[*"):
            continue
        if b"\n" not in skeleton[closing + 1 : following.end()]:
            continue
        place = _room_for_semicolon(data, closing + 1)
        if place is not None:
            repairs.put(place, b";")


def _room_for_semicolon(data: bytes, at: int) -> int | None:
    """Where a ``;`` can be written over white space right behind a call, without eating a directive's line."""
    if data[at : at + 1] in (b" ", b"\t"):
        return at
    if data[at : at + 2] == b"\r\n":
        return at
    if data[at : at + 1] != b"\n":
        return None
    if data[at + 1 : at + 2] in (b" ", b"\t"):
        return None if data[at + 1 :].lstrip(b" \t").startswith(b"#") else at + 1
    if data[at + 1 : at + 2] in (b"\n", b"\r"):
        return at if data[at + 1 : at + 2] == b"\n" else at + 1
    return None if data[at + 1 : at + 2] == b"#" else at
