"""A search result for people: what was gained, the steps with their evidence, the verdict card, the diff."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax

from optiml_core.cli.output import results
from optiml_core.cli.verdict_text import print_verdict
from optiml_core.records import Measurement
from optiml_core.report.numbers import time_text
from optiml_core.search.records import SearchResult


def speedup_text(measurement: Measurement) -> str:
    """``2.10x predicted (1.8 to 2.4) for NVIDIA H100``; only a measured one is called faster."""
    interval = f"({measurement.low:.2f} to {measurement.high:.2f})"
    if measurement.kind == "measured":
        return f"{measurement.speedup:.2f}x faster, measured {interval} on {measurement.target}"
    return f"{measurement.speedup:.2f}x predicted {interval} for {measurement.target}; not measured"


def print_result(result: SearchResult, written: list[str]) -> None:
    console = results()
    _print_head(console, result)
    if result.best is None:
        _print_negative(console, result)
        return
    best = result.best
    console.print("\n[bold]Steps[/]")
    for number, step in enumerate(result.trajectory, 1):
        gain = f"{step.gain:.2f}x" if step.gain is not None else ""
        settings = ", ".join(f"{name} = {value}" for name, value in step.step.parameters.items())
        name = step.step.name + (f" ({settings})" if settings else "")
        console.print(f"  {number}. {name}  {gain}", markup=False)
        console.print(f"     {step.step.rationale}", markup=False)
        for metric, change in step.evidence.items():
            console.print(f"     {metric.replace('_', ' ')}: {change}", markup=False)
    if best.judgement is not None:
        if best.judgement.diagnosis:
            console.print(f"\n[bold]Judge[/]  {escape(best.judgement.diagnosis)}")
        for flag in best.judgement.flags:
            console.print(f"  flag: {flag}", markup=False)
    assert best.verdict is not None
    console.print(f"\n[bold]Verdict[/]  equivalent ({best.verdict.level}, {best.verdict.seconds:.1f} s)")
    print_verdict(console, best.verdict)
    for note in result.notes:
        console.print(f"  note: {note}", markup=False)
    console.print("\n[bold]Patch[/]")
    if console.is_terminal:
        console.print(Syntax(result.patch, "diff", background_color="default"))
    else:
        console.print(result.patch, markup=False, end="")
    for path in written:
        console.print(f"written: {path}", markup=False)


def _print_head(console: Console, result: SearchResult) -> None:
    baseline = result.baseline.measurement
    console.print(f"[bold]{escape(result.kernel)}[/]  workload {result.origin}")
    for launch in result.launches:
        console.print(f"  {launch}", markup=False)
    if baseline is not None:
        bound = result.baseline.roofline
        limit = f", bound by {bound.bound_by} at {bound.fraction:.0%} of the roofline" if bound else ""
        console.print(f"  original: {time_text(baseline.time)} {baseline.kind} for {baseline.target}{limit}")
    # Several launches may show the same at one line.
    for text in dict.fromkeys(f"  line {one.range.start_line}: {one.message}" for one in result.baseline.findings):
        console.print(text, markup=False)
    if result.best is not None and result.best.measurement is not None:
        measurement, roofline = result.best.measurement, result.best.roofline
        limit = f", bound by {roofline.bound_by} at {roofline.fraction:.0%} of the roofline" if roofline else ""
        console.print(f"  best:     {time_text(measurement.time)} {measurement.kind}{limit}")
        console.print(f"  [bold green]{speedup_text(measurement)}[/]")
    states = Counter(node.state for node in result.nodes[1:])
    summary = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    console.print(f"  {result.evaluations} variants in {result.seconds:.1f} s ({summary}); stopped: {result.stopped}")


def _print_negative(console: Console, result: SearchResult) -> None:
    console.print("\n[bold]No verified variant is better than the original.[/]")
    if result.stopped == "original-misbehaves":
        console.print(f"  {result.baseline.reason}", markup=False)
    if result.baseline.verdict is not None and result.baseline.verdict.equivalent is not True:
        print_verdict(console, result.baseline.verdict)
    reasons = Counter(f"{node.step.name}: {node.reason}" for node in result.nodes[1:] if node.step and node.reason)
    for reason, count in reasons.most_common(8):
        console.print(f"  {count} x {reason}" if count > 1 else f"  {reason}", markup=False)
    for note in result.notes:
        console.print(f"  note: {note}", markup=False)
