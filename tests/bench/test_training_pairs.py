"""Training pairs: kernels that parse and run, answers in the form the search reads, files that resume exactly."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import evolve

from optiml_core.bench.synthesis_prompts import PROMPTS
from optiml_core.bench.training_pairs.descriptions import DESCRIPTIONS, Description
from optiml_core.bench.training_pairs.families import FAMILIES
from optiml_core.bench.training_pairs.generate import Generated, progress_file, write_units
from optiml_core.bench.training_pairs.kernels import KernelText
from optiml_core.bench.training_pairs.pairs import ALLOW, DESCRIPTION_UNITS, PairMaker, UnitResult, VerifiedPair
from optiml_core.bench.training_pairs.style import Style, laid_out
from optiml_core.device.emulator import EmulatorDevice
from optiml_core.language_models.reading import ReadAnswer, read_proposal
from optiml_core.profiling import Profiler
from optiml_core.records import Failure, Launch
from optiml_core.rewrites import CATALOGUE, Refusal, RewriteContext
from optiml_core.source import SourceFile, parse
from optiml_core.synthesis import Draft, specify
from optiml_core.toolchain import discover, gpu_facts
from optiml_core.workload import find_workload, resolve_launch

PLAIN = Style("  ", False, False, False, False, "{0}++", False)
BODY = ["void f() {", "for (int i = 0; i < n; i++) {", "x[i] = 1;", "}", "}"]


@pytest.mark.parametrize(
    ("style", "text"),
    [
        (PLAIN, "void f() {\n  for (int i = 0; i < n; i++) {\n    x[i] = 1;\n  }\n}\n"),
        (evolve(PLAIN, indent="\t"), "void f() {\n\tfor (int i = 0; i < n; i++) {\n\t\tx[i] = 1;\n\t}\n}\n"),
        (evolve(PLAIN, own_line=True), "void f()\n{\n  for (int i = 0; i < n; i++)\n  {\n    x[i] = 1;\n  }\n}\n"),
        (evolve(PLAIN, tight=True), "void f() {\n  for(int i = 0; i < n; i++) {\n    x[i] = 1;\n  }\n}\n"),
    ],
)
def test_layout(style: Style, text: str) -> None:
    assert laid_out(style, BODY) == text


@pytest.mark.parametrize("family", [one for one, _ in FAMILIES], ids=lambda family: family.__name__)
def test_every_family_draws_whole_kernels_that_rewrites_apply_to(family: Callable[[random.Random], KernelText]) -> None:
    texts = set()
    for number in range(12):
        drawn = family(random.Random(f"test {number}"))
        texts.add(drawn.text)
        unit = parse(SourceFile("kernel.cu", drawn.text.encode()))
        kernel = unit.kernel(drawn.kernel)
        assert kernel is not None, drawn.text
        assert not kernel.has_syntax_error, drawn.text
        workload = find_workload(unit, kernel)
        launch = resolve_launch(workload)
        assert isinstance(launch, Launch), (launch, drawn.text)
        assert not workload.problems, drawn.text
        context = RewriteContext(unit, kernel, workload, launch, (), ALLOW, None, ())
        assert any(not isinstance(one.options(context), Refusal) for one in CATALOGUE), drawn.text
    assert len(texts) == 12


@pytest.mark.parametrize("describe", [one for one, _ in DESCRIPTIONS], ids=lambda one: one.__name__)
def test_descriptions_are_read_and_are_no_prompts_of_the_benchmark(
    describe: Callable[[random.Random], Description],
) -> None:
    texts = [describe(random.Random(f"test {number}")).text for number in range(30)]
    assert len(set(texts)) > 15
    assert not set(texts) & {prompt.text for prompt in PROMPTS}
    read = [text for text in texts if isinstance(specify(text), Draft)]
    assert len(read) >= 22, sorted(set(texts) - set(read))


# ------------------------------------------------------------------------------------------- the file


def pair_of(number: int, generator: str = "a") -> VerifiedPair:
    return VerifiedPair(f"prompt {number}", f"answer {number}", generator, {"family": "test"})


UNITS = [
    UnitResult((pair_of(1), pair_of(2))),
    UnitResult((pair_of(2), evolve(pair_of(3, "b"), full="passed")), {"b": (2, "wrong")}),
    UnitResult((evolve(pair_of(4), full="failed", reason="not equal"), pair_of(5, "bad"), pair_of(6, "b"))),
    UnitResult(()),
    UnitResult((evolve(pair_of(7), prompt="prompt  1", answer="answer 1\n"), pair_of(8), pair_of(9))),
]


def units_up_to(end: int) -> Callable[[int], Iterator[tuple[int, UnitResult | Failure]]]:
    return lambda first: ((number, UNITS[number]) for number in range(first, end))


def prove(number: int, digest: str) -> str:
    pair = next(pair for pair in UNITS[number].pairs if pair.digest == digest)
    return "writes too far" if pair.generator == "bad" else ""


def written(path: Path) -> list[str]:
    return [json.loads(line)["prompt"] for line in path.read_text().splitlines()]


def test_only_new_and_proved_pairs_are_written(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    found = write_units(path, 100, 7, units_up_to(5), prove)
    assert isinstance(found, Generated)
    assert not found.finished
    assert written(path) == [f"prompt {number}" for number in (1, 2, 3, 6, 8, 9)]
    progress = found.progress
    assert (progress.pairs, progress.duplicates, progress.units) == (6, 2, 5)
    assert progress.proved == {"a": 3, "b": 1}
    assert progress.disproved == {"a": 1, "bad": 1}
    assert progress.refused == {"b": 2}
    assert progress.reasons["bad, full verdict"] == "writes too far"
    first = json.loads(path.read_text().splitlines()[0])
    assert (first["generator"], first["group"], first["full_verdict"]) == ("a", "7/0", "passed")


def test_after_a_failed_verdict_every_pair_of_its_kind_gets_one(tmp_path: Path) -> None:
    def of(number: int, family: str) -> VerifiedPair:
        return VerifiedPair(f"prompt {number}", f"answer {number}", "a", {"family": family})

    units = [
        UnitResult((of(1, "x"), evolve(of(2, "x"), full="failed", reason="wrong"))),
        UnitResult((of(3, "y"), of(4, "x"), of(5, "x"))),
    ]
    asked: list[str] = []

    def ask(number: int, digest: str) -> str:
        pair = next(pair for pair in units[number].pairs if pair.digest == digest)
        asked.append(pair.prompt)
        return "wrong again" if pair.prompt == "prompt 4" else ""

    path = tmp_path / "pairs.jsonl"
    write_units(path, 100, 7, lambda first: ((n, units[n]) for n in range(first, 2)), ask)
    assert asked == ["prompt 1", "prompt 4", "prompt 5"]
    assert written(path) == ["prompt 1", "prompt 3", "prompt 5"]


@pytest.mark.parametrize("stop", [1, 2, 3, 4])
def test_a_stopped_run_ends_as_one_that_was_not(tmp_path: Path, stop: int) -> None:
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    write_units(whole, 100, 7, units_up_to(5), prove)
    write_units(parts, 100, 7, units_up_to(stop), prove)
    with parts.open("ab") as file:
        file.write(b'{"prompt": "half a li')  # a kill in the middle of the next unit
    write_units(parts, 100, 7, units_up_to(5), prove)
    assert parts.read_bytes() == whole.read_bytes()
    one, other = (json.loads(progress_file(path).read_text()) for path in (whole, parts))
    assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_it_stops_at_the_number_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    found = write_units(path, 3, 7, units_up_to(5), prove)
    assert isinstance(found, Generated)
    assert (found.finished, found.progress.units) == (True, 2)
    again = write_units(path, 3, 7, units_up_to(5), prove)
    assert isinstance(again, Generated)
    assert (again.finished, again.added) == (True, 0)


def test_what_belongs_to_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    write_units(path, 100, 7, units_up_to(2), prove)
    assert isinstance(write_units(path, 100, 8, units_up_to(2), prove), Failure)
    path.write_bytes(b"")
    assert isinstance(write_units(path, 100, 7, units_up_to(2), prove), Failure)
    stranger = tmp_path / "stranger.jsonl"
    stranger.write_text("mine\n")
    assert isinstance(write_units(stranger, 100, 7, units_up_to(2), prove), Failure)
    assert stranger.read_text() == "mine\n"


def test_a_failed_worker_is_a_failure(tmp_path: Path) -> None:
    failed = Failure("crash", "a worker ended by itself")
    found = write_units(tmp_path / "pairs.jsonl", 100, 7, lambda first: iter([(first, failed)]), prove)
    assert found == failed


# ------------------------------------------------------------------------------- on the emulator, for real


@pytest.fixture(scope="module")
def maker() -> Iterator[PairMaker]:
    device = EmulatorDevice()
    gpu = gpu_facts("H100")
    assert not isinstance(gpu, Failure)
    with Profiler(device, gpu, discover()) as profiler:
        yield PairMaker(3, device, profiler)
    device.close()


def numbers_of(kind: str, count: int) -> list[int]:
    """Units that are drawn as descriptions or as kernels."""
    share = DESCRIPTION_UNITS
    drawn = [n for n in range(100) if (random.Random(f"3/{n}").random() < share) == (kind == "descriptions")]
    return drawn[:count]


def test_edits_are_what_the_search_reads_from_a_model(maker: PairMaker) -> None:
    number = numbers_of("kernels", 1)[0]
    result = maker.unit(number)
    assert len(result.pairs) >= 4, result
    assert len({pair.digest for pair in result.pairs}) == len(result.pairs)
    names = [rewrite.name for rewrite in CATALOGUE]
    for pair in result.pairs:
        before = pair.prompt.split("```cuda\n")[1].removesuffix("```\n")
        source = SourceFile("kernel.cu", before.encode())
        read = read_proposal(pair.answer, source, parse(source).kernels[0], names)
        assert isinstance(read, ReadAnswer), read
        assert read.rewrites == (pair.generator.removeprefix("rewrite: "),)
        after = pair.answer.split("```cuda\n")[1].removesuffix("```\n")
        assert read.data is not None
        assert read.data.decode().strip() == after.strip()
        assert after != before
    assert maker.full_verdict(number, result.pairs[0].digest) == ""


def test_described_kernels_are_checked(maker: PairMaker) -> None:
    number = numbers_of("descriptions", 1)[0]
    result = maker.unit(number)
    assert result.pairs
    for pair in result.pairs:
        assert pair.prompt.startswith("Write this CUDA kernel.\n// ")
        unit = parse(SourceFile("kernel.cu", pair.answer.split("```cuda\n")[1].removesuffix("```\n").encode()))
        assert len(unit.kernels) == 1
        assert not unit.kernels[0].has_syntax_error
    assert maker.full_verdict(number, result.pairs[0].digest) == ""


def test_a_wrong_rewrite_gives_no_pair(maker: PairMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate is what keeps a pair out: a rewrite that changes what is computed gets none."""
    from optiml_core.bench.training_pairs import pairs as module
    from optiml_core.records import Edit
    from optiml_core.rewrites import Option, Rewrite, Rewritten

    def spoil(context: RewriteContext, option: Option) -> Rewritten:
        data = context.unit.source.data
        at = data.index(b"] = ", data.index(b"{")) + len(b"] = ")
        edit = Edit(context.unit.source.path, at, at, b"1 + ")
        return Rewritten((edit,), context.launch_change, "wrong")

    wrong = Rewrite("wrong", (), lambda context: (Option(),), spoil)
    monkeypatch.setattr(module, "CATALOGUE", (wrong,))
    monkeypatch.setattr(module, "draw_kernel", FAMILIES[0][0])
    result = maker.unit(numbers_of("kernels", 1)[0])
    assert result.pairs == ()
    assert "rewrite: wrong" in result.refused


def test_a_unit_is_drawn_from_its_number_alone(maker: PairMaker) -> None:
    number = numbers_of("descriptions", 2)[1]
    assert [pair.digest for pair in maker.unit(number).pairs] == [pair.digest for pair in maker.unit(number).pairs]
