"""The grammar, loaded once, and walks from the root that cost no more than the depth of the tree."""

from __future__ import annotations

from functools import lru_cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Point


@lru_cache(maxsize=1)
def cuda_language() -> Language:
    return Language(tree_sitter_cuda.language())


def path_to(root: Node, byte: int) -> list[Node]:
    """The nodes that contain a byte, from the root to the smallest.

    ``Node.parent`` searches from the root every time, so one walk down is cheaper than a climb. (By
    a cursor: ``Node.first_child_for_byte`` of tree-sitter 0.26.1 crashes where there is no such child.)
    """
    path = [root]
    cursor = root.walk()
    while cursor.goto_first_child_for_byte(byte) is not None:
        node = cursor.node
        if node is None or node.start_byte > byte:
            break
        path.append(node)
    return path


def point_of(text: bytes, at: int) -> Point:
    """Row and column (bytes) of an offset, as tree-sitter counts them."""
    return Point(text.count(b"\n", 0, at), at - (text.rfind(b"\n", 0, at) + 1))
