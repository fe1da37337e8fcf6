"""Two charts as SVG text: gain over the search, and the roofline with original and best."""

from __future__ import annotations

import math
from html import escape

from optiml_core.records import Profile
from optiml_core.search.records import SearchResult

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 26, 36


def _frame(title: str, x_label: str, y_label: str, inner: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f'<text x="{LEFT}" y="14" font-weight="600">{escape(title)}</text>'
        f'<path d="M{LEFT} {TOP} V{HEIGHT - BOTTOM} H{WIDTH - RIGHT}" fill="none" stroke="var(--line)"/>'
        f'<text class="quiet" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">'
        f"{escape(x_label)}</text>"
        f'<text class="quiet" transform="translate(12 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_label)}</text>{inner}</svg>'
    )


def _scale(value: float, low: float, high: float, start: float, end: float) -> float:
    return start + (value - low) / ((high - low) or 1.0) * (end - start)


def gain_chart(result: SearchResult) -> str:
    """Each verified variant as a dot, the best so far as a line; refused and wrong ones as ticks on the axis."""
    nodes = sorted((node for node in result.nodes if node.order > 0), key=lambda node: node.order)
    if not nodes:
        return ""
    last = max(node.order for node in nodes)
    top = max([1.1, *(node.speedup for node in nodes if node.speedup is not None)]) * 1.05
    parts = []
    for value in _ticks(top):
        y = _scale(value, 0, top, HEIGHT - BOTTOM, TOP)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)" '
            f'stroke-dasharray="2 4"/><text class="quiet" x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">'
            f"{value:g}x</text>"
        )
    best, line = 1.0, [f"M{LEFT} {_scale(1, 0, top, HEIGHT - BOTTOM, TOP):.1f}"]
    for node in nodes:
        x = _scale(node.order, 0, last, LEFT, WIDTH - RIGHT)
        label = escape(f"{node.step.name if node.step else 'original'}: {node.reason or node.state}")
        if node.speedup is None or node.state not in ("better", "not-better"):
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM - 6}" '
                f'stroke="var(--bad)"><title>{label}</title></line>'
            )
            continue
        y = _scale(node.speedup, 0, top, HEIGHT - BOTTOM, TOP)
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="var(--accent)" fill-opacity=".7">'
            f"<title>{label}</title></circle>"
        )
        if node.speedup > best and node.state == "better":
            line.append(f"H{x:.1f} V{y:.1f}")
            best = node.speedup
    line.append(f"H{WIDTH - RIGHT}")
    parts.append(f'<path d="{" ".join(line)}" fill="none" stroke="var(--good)" stroke-width="1.5"/>')
    measurement = result.best.measurement if result.best else result.baseline.measurement
    kind = measurement.kind if measurement else "predicted"
    return _frame("Gain over the search", "variants evaluated", f"speedup ({kind})", "".join(parts))


def _ticks(top: float) -> list[float]:
    step = 10 ** math.floor(math.log10(top))
    for factor in (0.2, 0.25, 0.5, 1.0, 2.0):
        if top / (step * factor) <= 6:
            step *= factor
            break
    return [step * index for index in range(1, int(top / step) + 1)]


def roofline_chart(result: SearchResult) -> str:
    """Flops a second against flops a DRAM byte, both logarithmic, under the two ceilings of the target.

    Williams, Waterman, Patterson: "Roofline" (CACM 2009). Absent when a profile lacks flops or bytes.
    """
    original = result.baseline.profile
    best = result.best.profile if result.best else None
    points = [
        (name, *point)
        for name, profile in (("original", original), ("best", best))
        if profile is not None and (point := _point(profile)) is not None
    ]
    if not points or original is None:
        return ""
    peak = original.metrics.get("peak_flops_per_second")
    bandwidth = original.metrics.get("peak_dram_bytes_per_second")
    if not peak or not bandwidth:
        return ""
    ridge = peak / bandwidth
    xs = [x for _, x, _ in points] + [ridge]
    low_x, high_x = math.log10(min(xs)) - 0.7, math.log10(max(xs)) + 0.7
    ys = [y for _, _, y in points]
    low_y, high_y = math.log10(min(ys)) - 0.5, math.log10(peak) + 0.3

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _scale(math.log10(x), low_x, high_x, LEFT, WIDTH - RIGHT),
            _scale(math.log10(y), low_y, high_y, HEIGHT - BOTTOM, TOP),
        )

    left = max(10**low_x, 10**low_y / bandwidth)
    (x1, y1), (x2, y2), (x3, y3) = place(left, left * bandwidth), place(ridge, peak), place(10**high_x, peak)
    parts = [
        f'<path d="M{x1:.1f} {y1:.1f} L{x2:.1f} {y2:.1f} L{x3:.1f} {y3:.1f}" fill="none" '
        'stroke="var(--quiet)" stroke-width="1.5"/>'
    ]
    for exponent in range(math.ceil(low_x), math.floor(high_x) + 1):
        x, _ = place(10**exponent, peak)
        parts.append(
            f'<text class="quiet" x="{x:.1f}" y="{HEIGHT - BOTTOM + 13}" text-anchor="middle">{10**exponent:g}</text>'
        )
    for exponent in range(math.ceil(low_y), math.floor(high_y) + 1):
        _, y = place(ridge, 10**exponent)
        parts.append(
            f'<text class="quiet" x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{_flops_text(exponent)}</text>'
        )
    colours = {"original": "var(--warn)", "best": "var(--good)"}
    for name, x_value, y_value in points:
        x, y = place(x_value, y_value)
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colours[name]}"/>'
            f'<text x="{x + 8:.1f}" y="{y + 4:.1f}">{name}</text>'
        )
    return _frame("Roofline", "flops per DRAM byte", "flops per second", "".join(parts))


def _point(profile: Profile) -> tuple[float, float] | None:
    flops, moved = profile.metrics.get("flops"), profile.metrics.get("dram_bytes")
    if not flops or not moved or not profile.time:
        return None
    return flops / moved, flops / profile.time


def _flops_text(exponent: int) -> str:
    for base, unit in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if exponent >= base:
            return f"{10 ** (exponent - base):g}{unit}"
    return f"{10**exponent:g}"
