"""From a file's bytes to a translation unit: the tree, the kernels and the launch sites."""

from __future__ import annotations

from attrs import evolve
from tree_sitter import Parser

from optiml_core.source.blanking import blanked
from optiml_core.source.grammar import cuda_language
from optiml_core.source.incremental import parse_again
from optiml_core.source.instantiations import with_instantiations
from optiml_core.source.kernel_reading import kernel_node, read_kernel
from optiml_core.source.launch_sites import read_launch_sites
from optiml_core.source.lexical import scan, without_comments
from optiml_core.source.source_file import SourceFile
from optiml_core.source.token_scan import find_kernels, find_namespaces
from optiml_core.source.translation_unit import TranslationUnit
from optiml_core.source.type_aliases import alias_map


def parse(source: SourceFile, previous: TranslationUnit | None = None) -> TranslationUnit:
    """The translation unit of a file, broken or whole. Never raises on any bytes.

    ``previous`` is the unit of an earlier state of the same text: an edit inside a function then
    costs what it touches; any other edit is read as a whole.
    """
    if previous is not None:
        again = parse_again(source, previous)
        if again is not None:
            return again
    lexical = scan(source.data)
    repaired = blanked(source.data, lexical)
    plain = without_comments(source.data, 0, len(source.data), lexical.spans)
    tree = Parser(cuda_language()).parse(repaired.text)
    aliases = alias_map(repaired)
    tokens = find_kernels(repaired, lexical)
    spaces = find_namespaces(lexical) if tokens else ()
    unit = TranslationUnit(source, tree, (), (), lexical, repaired, plain, tokens)
    kernels = []
    for found in tokens:
        node = kernel_node(tree, found, repaired, lexical)
        unit.nodes[found.start] = node
        kernels.append(read_kernel(source, plain, repaired, aliases, found, node, spaces))
    sites = read_launch_sites(source, lexical, repaired.skeleton, plain, 0, len(plain))
    return evolve(unit, kernels=with_instantiations(kernels, repaired, sites), launch_sites=sites)
