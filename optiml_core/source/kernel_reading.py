"""From the tokens of a kernel to its node and its record."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tree_sitter import Node, Parser, Range, Tree

from optiml_core.records import Kernel
from optiml_core.source.blanking import Blanked
from optiml_core.source.declarations import read_parameters, read_template_parameters, squeeze, template_header
from optiml_core.source.grammar import cuda_language, path_to, point_of
from optiml_core.source.lexical import LexicalScan, blank, closing_bracket, split_at_commas
from optiml_core.source.macro_text import MacroText
from optiml_core.source.source_file import SourceFile
from optiml_core.source.token_scan import KernelTokens, NamespaceTokens


def kernel_node(tree: Tree, tokens: KernelTokens, repaired: Blanked, lexical: LexicalScan) -> Node | None:
    """The function node of a kernel: from the file's tree, or from a tree of the kernel alone if the
    file's has an error in it, at last with only the first branch of each conditional (step d)."""
    node = function_at(tree.root_node, tokens)
    if node is not None and not node.has_error:
        return node
    for text in _simpler_texts(tokens, repaired, lexical):
        alone = function_at(parse_alone(text, tokens), tokens)
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


def parse_alone(text: bytes, tokens: KernelTokens) -> Node:
    parser = Parser(cuda_language())
    parser.included_ranges = [
        Range(
            start_point=point_of(text, tokens.start),
            end_point=point_of(text, tokens.body_end),
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


def read_kernel(
    source: SourceFile,
    plain: bytes,
    repaired: Blanked,
    aliases: Mapping[str, str],
    tokens: KernelTokens,
    node: Node | None,
    spaces: Sequence[NamespaceTokens],
) -> Kernel:
    """The record of one kernel. ``plain`` is the data with comments blanked; ``spaces`` all namespaces of the file."""
    start, end = tokens.start, tokens.body_end
    name_text = squeeze(plain[tokens.name_start : tokens.name_end].decode("utf-8", "replace"))
    plain_name = name_text.split("<", 1)[0].split("(", 1)[0].rsplit("::", 1)[-1].strip()
    if "(" in name_text:
        plain_name = _expanded_name(name_text, repaired.macros) or name_text.replace(" ", "")
        name_text = plain_name
    around = [name for space in spaces if space.open < tokens.global_at < space.close for name in space.names]
    header = template_header(repaired.skeleton, start, tokens.global_at + 1)
    return Kernel(
        name=plain_name,
        qualified="::".join((*around, name_text.replace(" ", ""))),
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
