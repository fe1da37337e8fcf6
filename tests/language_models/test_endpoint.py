"""The endpoint model over real HTTP: every failure is a value with a cure, and no key ever shows."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("openai", reason="needs the extra `llm`")

from optiml_core.language_models import EndpointModel, EndpointSettings, Message, SamplingSettings
from optiml_core.language_models.interface import Answer
from optiml_core.records import Failure

from .local_endpoint import Script, serving

ASK = (Message("user", "hello"),)
QUICK = SamplingSettings(samples=1, seconds=3.0)


def model(url: str, key: str = "") -> EndpointModel:
    made = EndpointModel.from_settings(EndpointSettings(url, "m"), key)
    assert isinstance(made, EndpointModel)
    return made


def test_streams_several_samples_and_counts_tokens() -> None:
    seen: list[str] = []
    with serving(Script(lambda messages: "a kernel " * 20)) as url:
        answer = model(url).ask(ASK, SamplingSettings(samples=3), on_text=lambda _, text: seen.append(text))
    assert isinstance(answer, Answer)
    assert [sample.text for sample in answer.samples] == ["a kernel " * 20] * 3
    assert all(sample.finished for sample in answer.samples)
    assert answer.usage.prompt_tokens == 33
    assert "".join(seen) == "a kernel " * 60 or len(seen) >= 12


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (Script(lambda m: "", status=401), "http-401"),
        (Script(lambda m: "", status=404), "http-404"),
        (Script(lambda m: "", body=b"this is no JSON"), "bad-answer"),
        (Script(lambda m: "", body=b'{"choices": 3}'), "bad-answer"),
        (Script(lambda m: "", delay=5.0), "timeout"),
    ],
)
def test_failures_are_values(script: Script, kind: str) -> None:
    with serving(script) as url:
        answer = model(url).ask(ASK, SamplingSettings(samples=1, seconds=1.0))
    assert isinstance(answer, Failure), answer
    assert answer.kind == kind
    assert "127.0.0.1" in answer.message


def test_a_refused_connection_is_a_value() -> None:
    answer = model("http://127.0.0.1:9/v1").ask(ASK, QUICK)
    assert isinstance(answer, Failure)
    assert answer.kind == "no-connection"


def test_too_many_requests_is_tried_again() -> None:
    with serving(Script(lambda m: "fine", status_once=429)) as url:
        answer = model(url).ask(ASK, SamplingSettings(samples=1, seconds=10.0))
    assert isinstance(answer, Answer)
    assert answer.samples[0].text == "fine"


def test_endless_output_is_cut() -> None:
    began = time.monotonic()
    with serving(Script(lambda m: "x", endless=True)) as url:
        answer = model(url).ask(ASK, SamplingSettings(samples=1, seconds=20.0))
    assert isinstance(answer, Answer)
    assert not answer.samples[0].finished
    assert len(answer.samples[0].text) < 2 << 20
    assert time.monotonic() - began < 15


def test_a_slow_stream_is_cut_at_the_time_limit_and_cancelling_is_quick() -> None:
    with serving(Script(lambda m: "word " * 4000, delay_between=0.05)) as url:
        for settings, cancelled in ((SamplingSettings(seconds=1.0), False), (SamplingSettings(seconds=30.0), True)):
            began = time.monotonic()
            answer = model(url).ask(ASK, settings, cancelled=lambda c=cancelled: c)  # type: ignore[misc]
            if cancelled:
                assert isinstance(answer, Failure)
                assert answer.kind == "cancelled"
            else:
                assert isinstance(answer, Answer)
                assert not answer.samples[0].finished
            assert time.monotonic() - began < 3


def test_an_endpoint_that_says_nothing_is_left_when_cancelled_or_out_of_time() -> None:
    with serving(Script(lambda m: "too late", delay=30.0)) as url:
        for settings, limit, kind in (
            (SamplingSettings(samples=2, seconds=30.0), 0.5, "cancelled"),
            (SamplingSettings(samples=2, seconds=0.5), 60.0, "timeout"),
        ):
            began = time.monotonic()
            end = began + limit
            answer = model(url).ask(ASK, settings, cancelled=lambda end=end: time.monotonic() > end)  # type: ignore[misc]
            assert isinstance(answer, Failure)
            assert answer.kind == kind
            assert time.monotonic() - began < 3


def test_a_cut_stream_is_not_finished() -> None:
    with serving(Script(lambda m: "half a ker", cut=True)) as url:
        answer = model(url).ask(ASK, QUICK)
    assert isinstance(answer, Answer)
    assert not answer.samples[0].finished


def test_the_key_travels_and_shows_nowhere() -> None:
    key = "sk-secret-123"
    script = Script(lambda m: "", status=401, body=b'{"error": {"message": "bad key sk-secret-123"}}')
    with serving(script) as url:
        made = model(url, key)
        answer = made.ask(ASK, QUICK)
    assert {name.lower(): value for name, value in script.headers[0].items()}["authorization"] == f"Bearer {key}"
    assert isinstance(answer, Failure)
    assert key not in repr(answer) + repr(made) + made.name + made.destination


@pytest.mark.parametrize(
    ("url", "key"),
    [("ftp://x", ""), ("no url", ""), ("http://user:pass@host/v1", ""), ("http://example.com/v1", "key"), ("", "")],
)
def test_addresses_that_make_no_sense_or_are_not_safe(url: str, key: str) -> None:
    assert isinstance(EndpointModel.from_settings(EndpointSettings(url, "m"), key), Failure)
