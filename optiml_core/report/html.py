"""The report of a search as one self-contained HTML page: no script, no network, light and dark.

The same page is the editor's report view: its colours come from VS Code's theme variables where there are any.
"""

from __future__ import annotations

from html import escape

from optiml_core.records import Measurement, Verdict
from optiml_core.report.charts import gain_chart, roofline_chart
from optiml_core.report.numbers import metric_text, time_text
from optiml_core.report.tree_drawing import tree_drawing
from optiml_core.search.records import Outcome, SearchResult, TrajectoryStep

# Nothing may be loaded and nothing may run: the page holds text that came from source files and models.
CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

STYLE = """
:root { color-scheme: light dark;
  --ground: var(--vscode-editor-background, #ffffff); --ink: var(--vscode-editor-foreground, #1f2328);
  --quiet: var(--vscode-descriptionForeground, #59636e); --line: var(--vscode-panel-border, #d1d9e0);
  --panel: var(--vscode-editorWidget-background, #f6f8fa); --accent: var(--vscode-charts-blue, #0969da);
  --good: var(--vscode-charts-green, #1a7f37); --bad: var(--vscode-charts-red, #cf222e);
  --warn: var(--vscode-charts-yellow, #9a6700); }
@media (prefers-color-scheme: dark) { :root {
  --ground: var(--vscode-editor-background, #0d1117); --ink: var(--vscode-editor-foreground, #e6edf3);
  --quiet: var(--vscode-descriptionForeground, #9198a1); --line: var(--vscode-panel-border, #3d444d);
  --panel: var(--vscode-editorWidget-background, #151b23); --accent: var(--vscode-charts-blue, #4493f8);
  --good: var(--vscode-charts-green, #3fb950); --bad: var(--vscode-charts-red, #f85149);
  --warn: var(--vscode-charts-yellow, #d29922); } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 var(--vscode-font-family, system-ui, sans-serif); }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
p { margin: .3rem 0; } .quiet { color: var(--quiet); } .good { color: var(--good); } .bad { color: var(--bad); }
.warn { color: var(--warn); }
.headline { font-size: 1.9rem; font-weight: 650; margin: .6rem 0 0; }
.panel { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; font-weight: 600; }
td, th { padding: .3rem .7rem .3rem 0; vertical-align: top; border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { overflow-x: auto; margin: 0; font: 13px/1.45 var(--vscode-editor-font-family, ui-monospace, monospace); }
code { font-family: var(--vscode-editor-font-family, ui-monospace, monospace); font-size: .92em; }
.added { color: var(--good); } .removed { color: var(--bad); } .hunk { color: var(--accent); }
ol.steps { padding-left: 1.4rem; } ol.steps > li { margin-bottom: 1rem; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 11px; }
svg .quiet { fill: var(--quiet); } .scroll { overflow-x: auto; }
details > summary { cursor: pointer; }
"""


def html_report(result: SearchResult) -> str:
    """The whole page for ``result``. Every text from outside is escaped."""
    sections = [
        _head(result),
        _charts(result),
        _findings(result.baseline),
        _steps(result.trajectory),
        _metrics(result.baseline, result.best),
        _verdict(result),
        _patch(result.patch),
        _tree(result),
    ]
    title = escape(f"OptiML: {result.kernel}")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(section for section in sections if section)
        + "\n</body></html>\n"
    )


def _head(result: SearchResult) -> str:
    best = result.best.measurement if result.best else None
    baseline = result.baseline.measurement
    if best is not None:
        headline = f'<p class="headline good">{escape(headline_text(best))}</p>'
        interval = f"95 % interval {best.low:.2f} to {best.high:.2f}" if best.kind == "measured" else "not measured"
        detail = f"<p>{time_text(best.original_time)} before, {time_text(best.time)} after; {interval}</p>"
    else:
        headline = '<p class="headline">No verified variant is better than the original</p>'
        detail = f"<p>{escape(result.baseline.reason)}</p>" if result.stopped == "original-misbehaves" else ""
    launches = "".join(f"<p class=quiet><code>{escape(launch)}</code></p>" for launch in result.launches)
    kind = f" ({baseline.kind})" if baseline else ""
    return (
        f"<h1><code>{escape(result.kernel)}</code></h1>"
        f'<p class="quiet">device {escape(result.device)}, times for {escape(result.target)}{kind}; '
        f"workload {escape(result.origin)}; {result.evaluations} variants in {result.seconds:.0f} s, "
        f"stopped: {escape(result.stopped)}</p>{launches}{headline}{detail}"
        + "".join(f'<p class="warn">{escape(note)}</p>' for note in result.notes)
    )


def headline_text(measurement: Measurement) -> str:
    """Only a measured gain is called faster."""
    if measurement.kind == "measured":
        return f"{measurement.speedup:.2f}x faster, measured on {measurement.target}"
    return f"{measurement.speedup:.2f}x predicted for {measurement.target}"


def _charts(result: SearchResult) -> str:
    charts = [gain_chart(result), roofline_chart(result)]
    drawn = [f'<div class="panel">{chart}</div>' for chart in charts if chart]
    return f'<h2>Search</h2><div class="pair">{"".join(drawn)}</div>' if drawn else ""


def _findings(baseline: Outcome) -> str:
    if not baseline.findings:
        return ""
    rows = "".join(
        f"<tr><td class=number>line {f.range.start_line}</td><td>{escape(f.message)}</td>"
        f"<td>{escape(f.severity)}</td>"
        f"<td class=number>{f'{f.estimated_gain:.1f}x' if f.estimated_gain else ''}</td></tr>"
        for f in baseline.findings
    )
    return (
        "<h2>What limits the original</h2><table><tr><th>where</th><th>finding</th><th>severity</th>"
        f"<th>est. gain</th></tr>{rows}</table>"
    )


def _steps(trajectory: tuple[TrajectoryStep, ...]) -> str:
    if not trajectory:
        return ""
    items = []
    for step in trajectory:
        settings = ", ".join(f"{name} = {value}" for name, value in step.step.parameters.items())
        gain = f' <b class="good">{step.gain:.2f}x</b>' if step.gain is not None else ""
        evidence = "".join(
            f"<tr><td>{escape(name.replace('_', ' '))}</td><td class=number>{escape(str(change))}</td></tr>"
            for name, change in step.evidence.items()
        )
        items.append(
            f"<li><b>{escape(step.step.name)}</b> {f'<code>{escape(settings)}</code>' if settings else ''}{gain}"
            f"<p>{escape(step.step.rationale)}</p>"
            + (f"<details><summary>evidence</summary><table>{evidence}</table></details>" if evidence else "")
            + "</li>"
        )
    return f'<h2>Steps</h2><ol class="steps">{"".join(items)}</ol>'


def _metrics(baseline: Outcome, best: Outcome | None) -> str:
    if baseline.profile is None or best is None or best.profile is None:
        return ""
    after = best.profile.metrics
    rows = "".join(
        f"<tr><td>{escape(name.replace('_', ' '))}</td><td class=number>{metric_text(value)}</td>"
        f"<td class=number>{metric_text(after.get(name))}</td></tr>"
        for name, value in baseline.profile.metrics.items()
    )
    return (
        "<h2>Counters</h2><details><summary>original and best, side by side</summary>"
        f"<table><tr><th>metric</th><th>original</th><th>best</th></tr>{rows}</table></details>"
    )


def _verdict(result: SearchResult) -> str:
    verdict: Verdict | None = result.best.verdict if result.best else result.baseline.verdict
    if verdict is None:
        return ""
    marks = {"passed": ("good", "passed"), "failed": ("bad", "failed"), "not_run": ("warn", "not run")}
    rows = "".join(
        f'<tr><td class="{marks[c.result][0]}">{marks[c.result][1]}</td><td>{escape(c.name)}</td>'
        f"<td>{escape(c.detail)}</td></tr>"
        for c in verdict.checks
    )
    words = {True: "equivalent", False: "not equivalent", None: "could not tell"}
    dropped = "".join(f"<li>{escape(size)}</li>" for size in verdict.dropped_sizes)
    unchecked = "".join(f"<li>{escape(text)}</li>" for text in verdict.not_checked)
    judgement = result.best.judgement if result.best else None
    flags = "".join(f'<p class="warn">{escape(flag)}</p>' for flag in judgement.flags) if judgement else ""
    return (
        f"<h2>Verdict: {words[verdict.equivalent]} ({verdict.level})</h2>"
        f"<p>{escape(verdict.reason)}</p><table>{rows}</table>"
        + (f"<p><b>Dropped sizes</b></p><ul>{dropped}</ul>" if dropped else "")
        + (f"<p><b>Not checked</b></p><ul>{unchecked}</ul>" if unchecked else "")
        + (f"<p><b>Judge</b> {escape(judgement.diagnosis)}</p>" if judgement and judgement.diagnosis else "")
        + flags
    )


def _patch(patch: str) -> str:
    if not patch:
        return ""
    lines = []
    for line in patch.splitlines():
        kind = ""
        if line.startswith(("+++", "---", "@@", "diff ")):
            kind = "hunk"
        elif line.startswith("+"):
            kind = "added"
        elif line.startswith("-"):
            kind = "removed"
        lines.append(f'<span class="{kind}">{escape(line)}</span>' if kind else escape(line))
    return f'<h2>Patch</h2><div class="panel"><pre>{chr(10).join(lines)}</pre></div>'


def _tree(result: SearchResult) -> str:
    rows = "".join(
        f"<tr><td class=number>{node.identifier}</td><td class=number>{'' if node.parent is None else node.parent}</td>"
        f"<td>{escape(node.step.name if node.step else 'original')}</td><td>{escape(node.state)}</td>"
        f"<td class=number>{f'{node.speedup:.2f}x' if node.speedup is not None else ''}</td>"
        f"<td>{escape(node.reason)}</td></tr>"
        for node in result.nodes
    )
    return (
        f'<h2>Search tree</h2><div class="panel scroll">{tree_drawing(result)}</div>'
        "<details><summary>every variant</summary><table><tr><th>variant</th><th>from</th><th>step</th>"
        f"<th>state</th><th>speedup</th><th>reason</th></tr>{rows}</table></details>"
    )
