"""OptiML-G: from a comment to a specification to a kernel. See docs/synthesis.md."""

from optiml_core.synthesis.records import Draft, Question, Specification, Synthesized
from optiml_core.synthesis.specify import specify
from optiml_core.synthesis.synthesize import synthesize

__all__ = ["Draft", "Question", "Specification", "Synthesized", "specify", "synthesize"]
