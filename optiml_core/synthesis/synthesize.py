"""A description becomes a checked kernel, or a question."""

from __future__ import annotations

from optiml_core.device.protocol import Device
from optiml_core.synthesis.assembling import source_text, workload_text
from optiml_core.synthesis.checking import check
from optiml_core.synthesis.records import Question, Synthesized
from optiml_core.synthesis.specify import specify


def synthesize(text: str, device: Device) -> Synthesized:
    """Reads ``text``, drafts a kernel by a recipe and checks it on ``device`` against the NumPy reference.

    ``source`` is only there if every check passed; what failed is in ``checks``.
    """
    draft = specify(text)
    if isinstance(draft, Question):
        return Synthesized(None, draft.text, not_understood=draft.not_understood)
    checks = check(draft, device)
    passed = all(one.result == "passed" for one in checks)
    source = source_text(draft) if passed else ""
    return Synthesized(draft.specification, "", source, workload_text(draft), checks)
