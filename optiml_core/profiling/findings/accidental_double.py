"""Double precision that nobody asked for: an unsuffixed literal or a double function in float code."""

from __future__ import annotations

import re

from optiml_core.profiling.findings.context import FindingContext, in_line
from optiml_core.records import Finding

KIND = "accidental-double"
MOST_SHORTENED = 0.6  # of a line's instructions; ours, from tanh
_LITERAL = re.compile(rb"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?(?![\w.])")
_SPACE_OUT = re.compile(rb'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)


def computes_with(text: bytes, literal: re.Match[bytes]) -> bool:
    """Whether a literal is an operand, and not only a value that is stored: that conversion the compiler folds away."""
    before, after = text[: literal.start()].rstrip(), text[literal.end() :].lstrip()
    if before.endswith((b"-", b"+")) and not re.search(rb"[\w\])]\s*[-+]$", before):
        before = before[:-1].rstrip()  # a sign
    return before.endswith((b"+", b"-", b"*", b"/", b"<", b">", b"<=", b">=", b"==")) or after.startswith(
        (b"+", b"-", b"*", b"/", b"<", b">", b"==", b"!=")
    )


def find(context: FindingContext) -> tuple[Finding, ...]:
    """Each line of a kernel without double parameters or variables that holds an unsuffixed floating literal.

    With compiled code, only lines where double instructions really remain are reported; the compiler folds some away.
    Without, only literals that are an operand of something.
    """
    kernel = context.kernel
    if any("double" in parameter.type for parameter in kernel.parameters):
        return ()
    body = kernel.body_range
    text = _SPACE_OUT.sub(lambda match: re.sub(rb"[^\n]", b" ", match.group(0)),
                          context.unit.source.data[body.start_byte : body.end_byte])  # fmt: skip
    if re.search(rb"\bdouble\d?\b", text):
        return ()
    doubles = context.metrics.get("fp64_warp_instructions")
    found = []
    seen: set[int] = set()
    for match in _LITERAL.finditer(text):
        place = context.unit.source.range(body.start_byte + match.start(), body.start_byte + match.end())
        line = place.start_line
        at_line = context.line_metric(line, "fp64_warp_instructions")
        if line in seen or (at_line == 0 if doubles is not None else not computes_with(text, match)):
            continue
        seen.add(line)
        gain = None
        if doubles:
            metrics = context.metrics
            conversions = metrics.get("conversion_warp_instructions", 0.0)
            # A double function is several times as long as its float twin, and not only in the fp64 pipe.
            all_here = context.line_metric(line, "warp_instructions")
            fewer = min(MOST_SHORTENED * all_here, 2.0 * at_line)
            gain = context.gain_if(
                {
                    "fp64_warp_instructions": max(0.0, doubles - at_line),
                    "conversion_warp_instructions": max(0.0, conversions - at_line),
                    "warp_instructions": max(0.0, metrics.get("warp_instructions", 0.0) - fewer),
                    "fp32_warp_instructions": metrics.get("fp32_warp_instructions", 0.0) + at_line,
                }
            )
        literal = match.group(0).decode()
        message = f"`{literal}` is a double: the expression around it is computed in double precision"
        evidence: dict[str, float | str] = {"literal": literal}
        if doubles is not None:
            evidence["fp64_warp_instructions"] = at_line
        found.append(in_line(context.finding(KIND, place, message, evidence, gain, ("float-literals",)), line))
    return tuple(found)
