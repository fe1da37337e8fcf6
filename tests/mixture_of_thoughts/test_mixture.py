"""What must hold of the mixture: the eight defects of public code must not come back (docs/mixture-of-thoughts.md)."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs the extra `llm`")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from optiml_core.mixture_of_thoughts.byte_offsets import closed_segments, encode_whole  # noqa: E402
from optiml_core.mixture_of_thoughts.decoding import Decoder, Sampling, generate  # noqa: E402
from optiml_core.mixture_of_thoughts.experts import run_model  # noqa: E402
from optiml_core.mixture_of_thoughts.mixture import Mixture, Pair, answer_loss  # noqa: E402
from optiml_core.mixture_of_thoughts.router import Router  # noqa: E402

PROMPT = b"__global__ void f(float* x, int n) { // scale\n"
ANSWER = "  int i = threadIdx.x; if (i < n) x[i] *= 2.0f; // Größe 数据\n}".encode()
TEXT = st.text(alphabet="ab_ 1;(){}\n\t*+é数=<", min_size=1, max_size=40)


@pytest.mark.parametrize("primary", [0, 1, 2])
def test_with_gates_at_zero_it_is_its_primary_exactly(closed: Mixture, primary: int) -> None:
    expert = closed.experts[primary]
    row = closed([Pair(PROMPT, ANSWER)], forced_primary=(primary,)).rows[0]
    with torch.no_grad():
        alone = run_model(expert.model, torch.tensor([row.tokens.ids]))[0]
    assert torch.equal(row.logits, alone)


def test_open_gates_do_change_the_primary(open_gates: Mixture) -> None:
    row = open_gates([Pair(PROMPT, ANSWER)], forced_primary=(0,)).rows[0]
    alone = run_model(open_gates.experts[0].model, torch.tensor([row.tokens.ids]))[0]
    assert (row.logits - alone).abs().max() > 1e-2


@pytest.mark.parametrize("primary", [0, 1, 2])
@settings(max_examples=8, deadline=None)
@given(first=TEXT, second=TEXT)
def test_no_later_text_changes_an_earlier_logit(open_gates: Mixture, primary: int, first: str, second: str) -> None:
    """Two answers with a common beginning give the same logits there, whichever tokenizer reads them."""
    with torch.no_grad():
        rows = [
            open_gates([Pair(PROMPT, ANSWER[:20] + tail.encode())], forced_primary=(primary,)).rows[0]
            for tail in (first, second)
        ]
    same = 0
    for one, other in zip(rows[0].tokens.ids, rows[1].tokens.ids, strict=False):
        if one != other:
            break
        same += 1
    assert same > 0
    assert torch.allclose(rows[0].logits[:same], rows[1].logits[:same], atol=1e-5)


@pytest.mark.parametrize("primary", [0, 1, 2])
def test_cached_decoding_equals_reading_everything_again(open_gates: Mixture, primary: int) -> None:
    expert = open_gates.experts[primary]
    decoder = Decoder(open_gates, PROMPT, primary)
    ids = encode_whole(expert.tokenizer, expert.spelled, ANSWER)
    cached = [decoder.logits[-1]] + [decoder.step(identifier) for identifier in ids]
    with torch.no_grad():
        whole = open_gates([Pair(PROMPT, ANSWER)], forced_primary=(primary,)).rows[0]
    again = whole.logits[whole.prompt_tokens - 1 :]
    assert torch.allclose(torch.stack(cached), again, atol=1e-4)


def test_a_beginning_of_text_token_is_read_where_the_family_has_one(open_gates: Mixture) -> None:
    starts = [expert.start for expert in open_gates.experts]
    assert starts == [(), (), (open_gates.experts[2].tokenizer.bos_token_id,)]
    row = open_gates([Pair(PROMPT, ANSWER)], forced_primary=(2,)).rows[0]
    assert row.tokens.ids[:1] == starts[2]
    assert row.tokens.ends[0] == 0
    assert row.tokens.ends[-1] == len(PROMPT + ANSWER)
    alone = Decoder(open_gates, PROMPT, 2)
    assert alone.logits.shape[0] == row.prompt_tokens


def test_a_batch_equals_its_single_rows(open_gates: Mixture) -> None:
    pairs = [Pair(PROMPT, ANSWER), Pair(b"x", b"y = 1;"), Pair(b"sum the rows", ANSWER[:11]), Pair(PROMPT, b"}")]
    with torch.no_grad():
        batch = open_gates(pairs, forced_primary=(0, 1, 0, 2))
        singles = [
            open_gates([pair], forced_primary=(primary,)).rows[0]
            for pair, primary in zip(pairs, (0, 1, 0, 2), strict=True)
        ]
    for row, single in zip(batch.rows, singles, strict=True):
        assert row.tokens == single.tokens
        assert torch.allclose(row.logits, single.logits, atol=1e-4)


def test_the_router_learns_from_the_language_model_loss(open_gates: Mixture) -> None:
    open_gates.zero_grad()
    answer_loss(open_gates([Pair(PROMPT, ANSWER)])).backward()
    gradients = [parameter.grad for parameter in open_gates.router.parameters()]
    assert all(gradient is not None for gradient in gradients)
    assert max(float(gradient.abs().max()) for gradient in gradients if gradient is not None) > 0
    assert all(p.grad is None for expert in open_gates.experts for p in expert.model.parameters())


def test_noise_moves_the_choice_in_training_and_only_there() -> None:
    router = Router(8, 4, 2, hidden=8, dropout=0.0)
    embedded = torch.zeros(1, 8)
    noise = torch.Generator().manual_seed(1)
    router.train()
    assert len({router(embedded, generator=noise).primary for _ in range(40)}) > 1
    router.eval()
    assert len({router(embedded, generator=noise).primary for _ in range(10)}) == 1


def test_weights_are_exactly_one_and_zero_in_value() -> None:
    router = Router(8, 4, 2, hidden=8, dropout=0.0).eval()
    routing = router(torch.randn(5, 8))
    assert torch.allclose(routing.weights, routing.active.float(), atol=1e-6)
    assert routing.active.sum(1).tolist() == [2] * 5


def test_the_answer_plays_no_part_in_routing(open_gates: Mixture) -> None:
    scores = [open_gates([Pair(PROMPT, answer)]).routing.scores for answer in (ANSWER, b"else")]
    assert torch.equal(scores[0], scores[1])


def test_generation_is_repeatable_and_stops(open_gates: Mixture) -> None:
    sampling = Sampling(tokens=12, temperature=0.8, seed=3)
    one = b"".join(generate(open_gates, PROMPT, sampling))
    assert one == b"".join(generate(open_gates, PROMPT, sampling))
    assert len(list(generate(open_gates, PROMPT, Sampling(tokens=5)))) <= 5
    assert list(generate(open_gates, PROMPT, Sampling(tokens=50), cancelled=lambda: True)) == []


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40), st.binary(min_size=1, max_size=10))
def test_more_text_never_moves_a_closed_segment(text: bytes, more: bytes) -> None:
    before, after = closed_segments(text), closed_segments(text + more)
    assert after[: len(before)] == before
