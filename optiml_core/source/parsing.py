"""From a file's bytes to a translation unit: the tree, the kernels and the launch sites."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import evolve
from tree_sitter import Node, Parser, Point, Range, Tree

from optiml_core.records import Kernel
from optiml_core.source.blanking import Blanked, MacroText, blanked
from optiml_core.source.declarations import read_parameters, read_template_parameters, squeeze, template_header
from optiml_core.source.grammar import cuda_language, path_to
from optiml_core.source.instantiations import instantiations_of
from optiml_core.source.launch_sites import read_launch_sites
from optiml_core.source.lexical import LexicalScan, blank, closing_bracket, scan, split_at_commas
from optiml_core.source.source_file import SourceFile
from optiml_core.source.token_scan import KernelTokens, find_kernels
from optiml_core.source.translation_unit import TranslationUnit


def parse(source: SourceFile, previous: TranslationUnit | None = None) -> TranslationUnit:
    """The translation unit of a file, broken or whole. Never raises on any bytes.

    ``previous`` is the unit of an earlier state of the same text: only what changed is parsed again.
    """
    lexical = scan(source.data)
    repaired = blanked(source.data, lexical)
    tree = _parse_tree(repaired.text, previous)
    return _unit(source, lexical, repaired, tree)


def _parse_tree(text: bytes, previous: TranslationUnit | None) -> Tree:
    parser = Parser(cuda_language())
    if previous is None:
        return parser.parse(text)
    before = previous.blanked.text
    if before == text:
        return previous.tree
    start, old_end, new_end = changed_range(before, text)
    old = previous.tree.copy()
    # Rows are not used anywhere (the text may have lost a line end), but must be consistent: one row.
    old.edit(
        start_byte=start,
        old_end_byte=old_end,
        new_end_byte=new_end,
        start_point=_point(before, start),
        old_end_point=_point(before, old_end),
        new_end_point=_point(text, new_end),
    )
    return parser.parse(text, old)


def _point(text: bytes, at: int) -> Point:
    return Point(text.count(b"\n", 0, at), at - (text.rfind(b"\n", 0, at) + 1))


def changed_range(before: bytes, after: bytes) -> tuple[int, int, int]:
    """Start, old end and new end (bytes) of the smallest range outside which both texts are equal."""
    shorter = min(len(before), len(after))
    low, high = 0, shorter
    while low < high:  # the longest common prefix, by bisection over fast comparisons
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    start = low
    low, high = 0, shorter - start
    while low < high:
        middle = (low + high + 1) // 2
        if before[len(before) - middle : len(before) - low] == after[len(after) - middle : len(after) - low]:
            low = middle
        else:
            high = middle - 1
    return start, len(before) - low, len(after) - low


def _unit(source: SourceFile, lexical: LexicalScan, repaired: Blanked, tree: Tree) -> TranslationUnit:
    plain = without_comments(source.data, lexical)
    aliases = alias_map(repaired)
    nodes: dict[int, Node] = {}
    kernels: list[Kernel] = []
    for tokens in find_kernels(repaired, lexical.events):
        node = _kernel_node(tree, tokens, repaired, lexical)
        kernel = _kernel(source, plain, repaired, lexical, aliases, tokens, node, tree)
        if node is not None:
            nodes[kernel.range.start_byte] = node
        kernels.append(kernel)
    launch_sites = read_launch_sites(source, repaired, lexical, tree, plain)
    instantiated = tuple(
        evolve(k, instantiations=instantiations_of(k, repaired, launch_sites)) if k.template_parameters else k
        for k in kernels
    )
    return TranslationUnit(source, tree, instantiated, launch_sites, lexical, repaired, plain, nodes)


def without_comments(data: bytes, lexical: LexicalScan) -> bytes:
    """The data with comments and line continuations in blanks of the same length; strings stay."""
    pieces: list[bytes] = []
    at = 0
    for span in lexical.spans:
        if span.kind == "comment":
            pieces.append(data[at : span.start])
            pieces.append(blank(data[span.start : span.end]))
            at = span.end
    pieces.append(data[at:])
    return b"".join(pieces)


# ------------------------------------------------------------------------------------- kernels


def _kernel_node(tree: Tree, tokens: KernelTokens, repaired: Blanked, lexical: LexicalScan) -> Node | None:
    """The function node of a kernel: from the file's tree, or from a tree of the kernel alone if the
    file's has an error in it, at last with only the first branch of each conditional (step d)."""
    node = function_at(tree.root_node, tokens)
    if node is not None and not node.has_error:
        return node
    for text in _simpler_texts(tokens, repaired, lexical):
        alone = function_at(_parse_alone(text, tokens), tokens)
        if alone is not None and (node is None or not alone.has_error):
            node = alone
        if node is not None and not node.has_error:
            break
    return node


def function_at(root: Node, tokens: KernelTokens) -> Node | None:
    """The function definition whose declarator holds the kernel's name and whose body opens where it should."""
    for node in reversed(path_to(root, tokens.name_start)):
        if node.type == "function_definition":
            body = node.child_by_field_name("body")
            return node if body is not None and body.start_byte == tokens.body_open else None
    return None


def _parse_alone(text: bytes, tokens: KernelTokens) -> Node:
    parser = Parser(cuda_language())
    parser.included_ranges = [
        Range(
            start_point=_point(text, tokens.start),
            end_point=_point(text, tokens.body_end),
            start_byte=tokens.start,
            end_byte=tokens.body_end,
        )
    ]
    return parser.parse(text).root_node


def _simpler_texts(tokens: KernelTokens, repaired: Blanked, lexical: LexicalScan) -> list[bytes]:
    """Step d: the file's text, then the same with directives and later branches inside the kernel blanked."""
    texts = [repaired.text]
    inside = [d for d in lexical.directives if tokens.start <= d.start < tokens.body_end]
    if inside:
        out = bytearray(repaired.text)
        depth = 0
        dropped: list[int | None] = []  # where the branch that is left out began
        for directive in inside:
            out[directive.start : directive.end] = blank(bytes(out[directive.start : directive.end]))
            if directive.word in ("if", "ifdef", "ifndef"):
                depth += 1
                dropped.append(None)
            elif directive.word in ("else", "elif", "elifdef", "elifndef") and dropped:
                if dropped[-1] is None:
                    dropped[-1] = directive.end
            elif directive.word == "endif" and dropped:
                began = dropped.pop()
                if began is not None:
                    out[began : directive.start] = blank(bytes(out[began : directive.start]))
        texts.append(bytes(out))
    return texts


def _kernel(
    source: SourceFile,
    plain: bytes,
    repaired: Blanked,
    lexical: LexicalScan,
    aliases: Mapping[str, str],
    tokens: KernelTokens,
    node: Node | None,
    tree: Tree,
) -> Kernel:
    start, end = tokens.start, tokens.body_end
    if start < tokens.global_at:
        start = min(start, tokens.global_at)
    name_text = squeeze(plain[tokens.name_start : tokens.name_end].decode("utf-8", "replace"))
    plain_name = name_text.split("<", 1)[0].split("(", 1)[0].rsplit("::", 1)[-1].strip()
    if "(" in name_text:
        plain_name = _expanded_name(name_text, repaired.macros) or name_text.replace(" ", "")
        name_text = plain_name
    spaces = namespaces_around(tree, source, tokens.global_at)
    header = template_header(repaired.skeleton, start, tokens.global_at + 1)
    # Without its header a name that was blanked in the tree would read differently: all texts are the file's.
    return Kernel(
        name=plain_name,
        qualified="::".join((*spaces, name_text.replace(" ", ""))),
        file=source.path,
        range=source.range(start, end),
        name_range=source.range(tokens.name_start, tokens.name_end),
        signature_range=source.range(tokens.name_start, tokens.parameters_close + 1),
        body_range=source.range(tokens.body_open, end),
        parameters=read_parameters(source, plain, tokens.parameters_open, tokens.parameters_close, aliases),
        template_parameters=read_template_parameters(plain, *header) if header else (),
        launch_bounds=_launch_bounds(plain, start, tokens.body_open),
        has_syntax_error=node is None or node.has_error or not tokens.closed,
    )


_LAUNCH_BOUNDS = re.compile(rb"\b__launch_bounds__\s*\(")


def _launch_bounds(plain: bytes, start: int, end: int) -> tuple[str, ...]:
    match = _LAUNCH_BOUNDS.search(plain, start, end)
    closing = closing_bracket(plain, match.end() - 1) if match else None
    if match is None or closing is None:
        return ()
    parts = split_at_commas(plain, match.end(), closing)
    return tuple(squeeze(plain[a:b].decode("utf-8", "replace")) for a, b in parts)


def _expanded_name(written: str, macros: tuple[MacroText, ...]) -> str | None:
    """``NAME(foo)`` through ``#define NAME(x) x##_kernel``; None if it is anything harder."""
    match = re.fullmatch(r"(\w+)\s*\(([^()]*)\)", written)
    if match is None:
        return None
    arguments = [a.strip() for a in match[2].split(",")]
    for macro in macros:
        if macro.name == match[1] and macro.parameters is not None and len(macro.parameters) == len(arguments):
            values = dict(zip(macro.parameters, arguments, strict=True))
            body = re.sub(r"\w+", lambda m, values=values: values.get(m[0], m[0]), macro.body)  # type: ignore[misc]
            body = re.sub(r"\s*##\s*", "", body)
            if re.fullmatch(r"[A-Za-z_]\w*", body):
                return body
    return None


def namespaces_around(tree: Tree, source: SourceFile, at: int) -> tuple[str, ...]:
    """The names of the namespaces (and classes) that enclose a byte, outermost first."""
    names: list[str] = []
    for node in path_to(tree.root_node, at):
        if node.type in ("namespace_definition", "struct_specifier", "class_specifier"):
            name = node.child_by_field_name("name")
            if name is not None and name.end_byte <= at:
                names.append(squeeze(source.data[name.start_byte : name.end_byte].decode("utf-8", "replace")))
    return tuple(part.strip() for name in names for part in name.split("::"))


_TYPEDEF = re.compile(
    rb"\btypedef\s+((?:const\s+|unsigned\s+|signed\s+|long\s+|struct\s+|short\s+)*[\w:]+(?:\s+(?:int|long|const))*[\s*]*[\s*])(\w+)\s*;"
)
_USING = re.compile(rb"\busing\s+(\w+)\s*=\s*([\w:\s*]+);")
_TYPE_TEXT = re.compile(
    r"(?:const\s+)?[A-Za-z_][\w:]*(?:\s+(?:int|long|char|short|double))*(?:\s*\*)?(?:\s*(?:__restrict__|const))*"
)


def alias_map(repaired: Blanked) -> dict[str, str]:
    """Names of the file's typedefs, aliases and type macros, and what each stands for."""
    aliases: dict[str, str] = {}
    for macro in repaired.macros:
        if macro.parameters is None and macro.name not in aliases and _TYPE_TEXT.fullmatch(macro.body):
            aliases[macro.name] = macro.body
    for match in _TYPEDEF.finditer(repaired.skeleton):
        aliases.setdefault(match[2].decode(), squeeze(match[1].decode("utf-8", "replace")))
    for match in _USING.finditer(repaired.skeleton):
        aliases.setdefault(match[1].decode(), squeeze(match[2].decode("utf-8", "replace")))
    return {name: target for name, target in aliases.items() if name != target}
