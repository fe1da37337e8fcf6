"""Every word, number and sign is used, or it is asked about. A wrong kernel is the one outcome that never happens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optiml_core.bench.synthesis_prompts import PROMPTS
from optiml_core.synthesis import Draft, Question, specify
from optiml_core.synthesis.formulas import tokenize
from tests.synthesis.adversarial_prompts import READ, REFUSED
from tests.synthesis.test_specify import UNDERSTOOD


@pytest.mark.parametrize(("text", "part"), REFUSED)
def test_what_cannot_be_read_is_asked(text: str, part: str) -> None:
    question = specify(text)
    assert isinstance(question, Question), question.specification
    assert part in question.text


@pytest.mark.parametrize(("text", "pattern", "reference"), READ)
def test_a_sign_keeps_its_meaning(text: str, pattern: str, reference: str) -> None:
    draft = specify(text)
    assert isinstance(draft, Draft), draft.text
    assert (draft.specification.pattern, draft.specification.reference) == (pattern, reference)


GOOD = [case[0] for case in UNDERSTOOD] + [case[0] for case in READ] + [one.text for one in PROMPTS]
# Words that no phrase holds, in whatever meaning; numbers; signs.
STRANGE = """fuzzy except negative positive odd even twice reversed every-second masked lazily nearly weighted almost
unless instead rather approximately stochastic transposed-back halved"""
UNKNOWN = st.one_of(
    st.sampled_from(STRANGE.split()),
    st.from_regex(r"[b-df-hj-np-tv-z]{4,7}", fullmatch=True),
    st.integers(0, 10**6).map(str),
    st.sampled_from(["0.5", "-3", "%", "!", "&", "~", "@", "#", "$", "^", "<<", "'", "?"]),
)


def kernel(text: str) -> tuple[object, ...] | None:
    """What would be built; None for a question."""
    draft = specify(text)
    if isinstance(draft, Question):
        return None
    return draft.specification, draft.body, draft.grid, draft.block


@settings(max_examples=150, deadline=None)
@given(text=st.sampled_from(GOOD), word=UNKNOWN, share=st.floats(0, 1))
def test_an_unknown_word_never_leaves_the_same_kernel(text: str, word: str, share: float) -> None:
    words = text.split(" ")
    place = round(share * len(words))
    changed = " ".join([*words[:place], word, *words[place:]])
    before, after = kernel(text), kernel(changed)
    assert before is not None
    # A name may become another name, a number another number; the word is then in what is built.
    assert after != before, changed
    if after is not None:
        shown = {token.lower() for token in tokenize(str(after))}
        assert {token.lower() for token in tokenize(word)} <= shown | {"an"}, changed
