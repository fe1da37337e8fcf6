"""The search tree as SVG text: one row a node, indented by depth, coloured by outcome."""

from __future__ import annotations

from html import escape

from optiml_core.search.records import NodeRecord, SearchResult

ROW, INDENT, WIDTH = 20, 22, 900
ROW_LIMIT = 400  # a larger tree is cut here and says so

COLOURS = {
    "better": "var(--good)",
    "not-better": "var(--accent)",
    "wrong": "var(--bad)",
    "vetoed": "var(--bad)",
    "compile-error": "var(--bad)",
    "failed": "var(--bad)",
    "could-not-tell": "var(--warn)",
    "refused": "var(--quiet)",
    "duplicate": "var(--quiet)",
}


def tree_drawing(result: SearchResult) -> str:
    """Depth first, children in the order in which they were issued; the path to the best is bold."""
    children: dict[int | None, list[NodeRecord]] = {}
    for node in result.nodes:
        children.setdefault(node.parent, []).append(node)
    on_path = _path_to_best(result)
    rows: list[tuple[NodeRecord, int]] = []

    def visit(node: NodeRecord, depth: int) -> None:
        rows.append((node, depth))
        for child in children.get(node.identifier, []):
            visit(child, depth + 1)

    for root in children.get(None, []):
        visit(root, 0)
    cut = len(rows) - ROW_LIMIT
    shown = rows[:ROW_LIMIT]
    parts = [_row(index, node, depth, node.identifier in on_path) for index, (node, depth) in enumerate(shown)]
    parts += _edges(shown)
    height = ROW * (min(len(rows), ROW_LIMIT) + (1 if cut > 0 else 0)) + 6
    if cut > 0:
        parts.append(f'<text class="quiet" x="8" y="{height - 8}">and {cut} more variants</text>')
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" style="min-width:{WIDTH}px" role="img" aria-label="search tree">'
        + "".join(parts)
        + "</svg>"
    )


def _path_to_best(result: SearchResult) -> set[int]:
    if result.best is None:
        return set()
    parents = {node.identifier: node.parent for node in result.nodes}
    verified = [node for node in result.nodes if node.state == "better" and node.time is not None]
    if not verified:
        return set()
    walker: int | None = min(verified, key=lambda node: (node.time or 0.0, node.order)).identifier
    path = set()
    while walker is not None:
        path.add(walker)
        walker = parents.get(walker)
    return path


def _row(index: int, node: NodeRecord, depth: int, bold: bool) -> str:
    x, y = 10 + depth * INDENT, ROW * index + 12
    name = node.step.name if node.step else "original"
    if node.step and node.step.parameters:
        name += " (" + ", ".join(f"{key} = {value}" for key, value in node.step.parameters.items()) + ")"
    gain = f"{node.speedup:.2f}x" if node.speedup is not None else node.state
    weight = ' font-weight="700"' if bold else ""
    return (
        f"<g><title>{escape(node.reason or node.state)}</title>"
        f'<circle cx="{x}" cy="{y}" r="4.5" fill="{COLOURS.get(node.state, "var(--quiet)")}"/>'
        f'<text x="{x + 11}" y="{y + 4}"{weight}>{escape(name)}'
        f'<tspan class="quiet" dx="8">{escape(gain)}, {node.visits} visits</tspan></text></g>'
    )


def _edges(rows: list[tuple[NodeRecord, int]]) -> list[str]:
    place = {node.identifier: (index, depth) for index, (node, depth) in enumerate(rows)}
    edges = []
    for index, (node, depth) in enumerate(rows):
        if node.parent is None or node.parent not in place:
            continue
        parent_index, parent_depth = place[node.parent]
        x, y = 10 + parent_depth * INDENT, ROW * parent_index + 18
        edges.append(
            f'<path d="M{x} {y} V{ROW * index + 12} H{10 + depth * INDENT - 6}" fill="none" stroke="var(--line)"/>'
        )
    return edges
