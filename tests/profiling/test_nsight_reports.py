"""Reports that Nsight Compute wrote on an H200 (recorded/, made by benchmarks/record_reports.py), read with no GPU."""

from __future__ import annotations

import json
import lzma
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve

from optiml_core.cli.main import main
from optiml_core.profiling.nsight import Imported, ReportedKernel, import_kernels, profile_of, read_report
from optiml_core.profiling.nsight import report as report_module
from optiml_core.profiling.nsight.imported import split_name
from optiml_core.profiling.nsight.profile import file_in_report
from optiml_core.profiling.nsight.report import InstructionCounters
from optiml_core.profiling.nsight.run import launch_of
from optiml_core.records import BOTTLENECK_KINDS, Failure
from optiml_core.source import parse_with_includes
from optiml_core.source.included_files import UnitWithIncludes

pytest.importorskip("ncu_report", reason="needs the package ncu-report")

RECORDED = Path(__file__).parent / "recorded"
SOURCE = RECORDED / "several.cu"


def unpacked(name: str, folder: Path, change: Callable[[bytes], bytes] = lambda data: data) -> Path:
    path = folder / f"{name}.ncu-rep"
    path.write_bytes(change(lzma.decompress((RECORDED / f"{name}.ncu-rep.xz").read_bytes())))
    return path


def read(path: Path) -> tuple[ReportedKernel, ...]:
    reported = read_report(path)
    assert not isinstance(reported, Failure), reported
    return reported


def units(path: Path = SOURCE) -> UnitWithIncludes:
    parsed = parse_with_includes(path)
    assert not isinstance(parsed, Failure)
    return parsed


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReportedKernel, ...]:
    return read(unpacked("several", tmp_path_factory.mktemp("reports")))


@pytest.fixture(scope="module")
def imported(several: tuple[ReportedKernel, ...]) -> Imported:
    return import_kernels(several, units().units)


# ------------------------------------------------------------------------------------- what a report holds


def test_every_launch_of_a_report(several: tuple[ReportedKernel, ...]) -> None:
    assert [split_name(kernel.demangled) for kernel in several] == [
        ("row_sums", ()), ("transpose", ("float", "8")), ("transpose", ("int", "4")), ("counting::bins", ()),
    ]  # fmt: skip
    assert {kernel.gpu for kernel in several} == {"NVIDIA H200"}
    assert several[0].number("launch__grid_size") == 8
    assert several[0].number("no_such_metric") is None
    assert any(rule.identifier == "UncoalescedGlobalAccess" and rule.speedup for rule in several[0].rules)


@pytest.mark.parametrize(
    ("index", "line", "metric", "value"),
    [
        (0, 10, "sectors_per_request", 32.0),  # each lane in a row of its own
        (0, 10, "requests", 8 * 4 * 1024.0),  # 8 blocks of 4 warps, 1024 columns
        (1, 10, "sectors_per_request", 4.0),
        (1, 15, "wavefronts", 32 * 32 * 32 * 32.0),  # 32768 requests of 32 passes: a tile without padding
        (1, 15, "ideal_wavefronts", 32 * 32 * 32.0),
    ],
)
def test_counters_per_line(
    several: tuple[ReportedKernel, ...], index: int, line: int, metric: str, value: float
) -> None:
    file = "tiles.cuh" if index else "several.cu"
    profile = profile_of(several[index], file, "k")
    assert profile.line_metrics[line][metric] == value


def test_where_warps_wait(several: tuple[ReportedKernel, ...]) -> None:
    profile = profile_of(several[0], "several.cu", "row_sums")
    row = profile.line_metrics[10]
    assert 0.8 < row["stall_share"] <= 1.0
    assert row["stall_share_long_scoreboard"] > 0.5 * row["stall_share"]
    assert sum(values.get("stall_share", 0.0) for values in profile.line_metrics.values()) <= 1.0


def test_what_was_not_counted_is_absent(tmp_path: Path) -> None:
    kernel = read(unpacked("one_counter", tmp_path))[0]
    profile = profile_of(kernel, None, "row_sums")
    assert profile.time == pytest.approx(71e-6, rel=0.1)
    assert profile.line_metrics == {}
    for name in ("dram_bytes", "global_sectors", "warp_instructions", "achieved_occupancy"):
        assert name not in profile.metrics


# --------------------------------------------------------------------------------- which kernels these are


def test_kernels_in_files_headers_templates_and_namespaces(imported: Imported) -> None:
    found = [(Path(k.unit.source.path).name, k.kernel.qualified, k.template_arguments) for k in imported.kernels]
    assert found == [
        ("several.cu", "row_sums", ()), ("tiles.cuh", "transpose", ("float", "8")),
        ("tiles.cuh", "transpose", ("int", "4")), ("several.cu", "counting::bins", ()),
    ]  # fmt: skip
    assert imported.others == ()
    assert all(kernel.notes == () for kernel in imported.kernels)


def test_several_launches_of_one_kernel_are_one(several: tuple[ReportedKernel, ...]) -> None:
    longer = evolve(several[0], metrics={**several[0].metrics, "gpu__time_duration.sum": 1e9})
    found = import_kernels([several[0], longer, several[3]], units().units)
    assert [(kernel.kernel.name, kernel.launches) for kernel in found.kernels] == [("row_sums", 2), ("bins", 1)]
    assert found.kernels[0].profile.time == 1.0


def test_kernels_of_other_files_are_named(several: tuple[ReportedKernel, ...], tmp_path: Path) -> None:
    path = tmp_path / "other.cu"
    path.write_text("__global__ void row_sums(const float* x) {}\n")
    found = import_kernels(several, units(path).units)
    assert [kernel.kernel.name for kernel in found.kernels] == ["row_sums"]
    assert "no instruction in the report comes from other.cu" in found.kernels[0].notes
    assert len(found.others) == 3


@pytest.mark.parametrize(
    ("demangled", "name", "arguments"),
    [
        ("f", "f", ()),
        ("f(int)", "f", ()),
        ("void a::b::f<float, (int)8>(const T1 *, T1 *)", "a::b::f", ("float", "8")),
        ("void f<a::g<int, 3>, (bool)1>(T1)", "f", ("a::g<int, 3>", "1")),
        ("void (anonymous namespace)::f(float *)", "f", ()),
        ("void f<(unsigned int)4>(float (*)[4])", "f", ("4",)),
    ],
)
def test_names(demangled: str, name: str, arguments: tuple[str, ...]) -> None:
    assert split_name(demangled) == (name, arguments)


@pytest.mark.parametrize(
    ("wanted", "files", "chosen"),
    [
        ("/here/src/k.cu", ["/there/src/k.cu"], "/there/src/k.cu"),
        ("/here/a/k.cu", ["/there/a/k.cu", "/there/b/k.cu"], "/there/a/k.cu"),
        ("/here/b/k.cu", ["/there/a/k.cu", "/there/b/k.cu"], "/there/b/k.cu"),
        ("k.cu", [r"C:\work\k.cu"], r"C:\work\k.cu"),
        ("k.cu", ["/there/other.cu", ""], None),
    ],
)
def test_moved_paths(several: tuple[ReportedKernel, ...], wanted: str, files: list[str], chosen: str | None) -> None:
    instructions = tuple(InstructionCounters(file, 1, "LDG.E", {}) for file in files)
    assert file_in_report(evolve(several[0], instructions=instructions), wanted) == chosen


def test_a_moved_file_has_the_same_lines(several: tuple[ReportedKernel, ...], tmp_path: Path) -> None:
    for name in ("several.cu", "tiles.cuh"):
        shutil.copy(RECORDED / name, tmp_path)
    moved = import_kernels(several, units(tmp_path / "several.cu").units)
    here = import_kernels(several, units().units)
    assert [k.profile.line_metrics for k in moved.kernels] == [k.profile.line_metrics for k in here.kernels]


def test_another_version_of_the_file_is_noticed(several: tuple[ReportedKernel, ...]) -> None:
    spelled = file_in_report(several[0], "several.cu")
    assert spelled is not None
    changed = evolve(several[0], sources={spelled: SOURCE.read_text() + "// more\n"})
    same = evolve(several[0], sources={spelled: SOURCE.read_text()})
    assert "another version" in " ".join(import_kernels([changed], units().units).kernels[0].notes)
    assert import_kernels([same], units().units).kernels[0].notes == ()


# ------------------------------------------------------------------------------------------ other GPUs


@pytest.mark.parametrize(("name", "known"), [(b"NVIDIA L40S", True), (b"NVIDIA Q123", False)])
def test_reports_of_other_gpus(tmp_path: Path, name: bytes, known: bool) -> None:
    path = unpacked("several", tmp_path, lambda data: data.replace(b"NVIDIA H200", name))
    found = import_kernels(read(path), units().units).kernels[0]
    assert found.profile.target == name.decode()
    assert any("nothing is known here" in note for note in found.notes) != known
    # ncu's own estimate stands whatever the GPU.
    uncoalesced = next(f for f in found.findings if f.kind == "uncoalesced-access")
    assert uncoalesced.estimated_gain is not None
    assert uncoalesced.estimated_gain > 3


def test_code_that_the_reader_cannot_disassemble(several: tuple[ReportedKernel, ...]) -> None:
    """Its newest version knows no old GPUs' code, so accesses are told by ncu's codes, as in their reports."""
    unknown = evolve(several[1], instructions=tuple(evolve(i, text="???") for i in several[1].instructions))
    known = profile_of(several[1], "tiles.cuh", "k")
    assert profile_of(unknown, "tiles.cuh", "k").accesses == known.accesses
    assert known.accesses


# ----------------------------------------------------------------------------------------- bad files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"kernel,time\nf,1\n", "does not begin as one"),
        (b"NVR\0", "no kernel"),
        (b"NVR\0" + bytes(range(256)) * 40, "no kernel"),
    ],
)
def test_files_that_are_no_reports(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.ncu-rep"
    path.write_bytes(content)
    found = read_report(path)
    assert isinstance(found, Failure)
    assert (found.kind, found.file) == ("bad-input", str(path))
    assert message in found.message


def test_places_that_hold_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, message in ((tmp_path, "no file"), (tmp_path / "nothing.ncu-rep", "no such report")):
        found = read_report(path)
        assert isinstance(found, Failure)
        assert message in found.message
    monkeypatch.setattr(report_module, "LARGEST_REPORT", 1000)
    found = read_report(unpacked("one_counter", tmp_path))
    assert isinstance(found, Failure)
    assert "larger than" in found.message


def test_damaged_reports_never_raise(tmp_path: Path) -> None:
    generator = random.Random(0)
    whole = lzma.decompress((RECORDED / "one_counter.ncu-rep.xz").read_bytes())
    damaged = [whole[: len(whole) * part // 4] for part in (1, 2, 3)]
    for _ in range(5):
        changed = bytearray(whole)
        for _ in range(200):
            changed[generator.randrange(4, len(changed))] = generator.randrange(256)
        damaged.append(bytes(changed))
    failures = 0
    for number, data in enumerate(damaged):
        path = tmp_path / f"{number}.ncu-rep"
        path.write_bytes(data)
        found = read_report(path)
        if isinstance(found, Failure):
            assert (found.kind, found.file) == ("bad-input", str(path))
            failures += 1
    assert failures


# ------------------------------------------------------------------------------------------- findings


def test_findings_have_lines_kinds_and_ncus_estimates(imported: Imported) -> None:
    found = {(f.kind, f.range.start_line): f for f in imported.kernels[0].findings}
    assert all(kind in BOTTLENECK_KINDS for kind, _ in found)
    uncoalesced = found["uncoalesced-access", 10]
    assert "28 of 32 bytes per sector wasted" in uncoalesced.message
    assert uncoalesced.evidence["sectors_per_request"] == 32.0
    assert uncoalesced.evidence["ncu_estimated_gain"] == pytest.approx(4.5, rel=0.05)  # 78 % of the run time
    assert uncoalesced.severity == "high"
    assert uncoalesced.evidence["stall_share"] == "95 %"
    assert "swap-thread-roles" in uncoalesced.rewrites
    assert ("memory-latency", 10) in found
    assert any(kind == "latency-bound-launch" for kind, _ in found)


def test_bank_conflicts_lie_in_the_header(imported: Imported) -> None:
    conflict = next(f for f in imported.kernels[1].findings if f.kind == "shared-bank-conflict")
    assert (Path(conflict.range.file).name, conflict.range.start_line) == ("tiles.cuh", 15)
    assert "32.0 passes" in conflict.message
    assert conflict.evidence["ncu_estimated_gain"] == pytest.approx(4.7, rel=0.05)


def test_findings_are_not_repeated(imported: Imported) -> None:
    for kernel in imported.kernels:
        places = [(f.kind, f.range.start_line) for f in kernel.findings]
        assert len(places) == len(set(places))


def test_words_are_ours(imported: Imported, several: tuple[ReportedKernel, ...]) -> None:
    theirs = {rule.message for kernel in several for rule in kernel.rules if rule.message}
    for kernel in imported.kernels:
        for finding in kernel.findings:
            assert not any(finding.message in text or text in finding.message for text in theirs)
            assert "@" not in finding.message  # ncu's links


def test_a_report_without_lines_still_says_what_its_rules_say(tmp_path: Path) -> None:
    kernel = import_kernels(read(unpacked("no_lines", tmp_path)), units().units).kernels[0]
    assert "compile with -lineinfo" in kernel.notes[0]
    launch = next(f for f in kernel.findings if f.kind == "latency-bound-launch")
    assert launch.evidence["ncu_estimated_gain"] == pytest.approx(16.5, rel=0.05)  # 94 % of the run time


def changed_rules(kernel: ReportedKernel, **metrics: float) -> ReportedKernel:
    return evolve(kernel, metrics={**kernel.metrics, **metrics})


@pytest.mark.parametrize(("waves", "gain"), [(1.9, 2 / 1.9), (3.88, 4 / 3.88), (1.01, 1 / (1 - 0.25))])
def test_a_partial_wave_saves_no_more_than_it_is(
    several: tuple[ReportedKernel, ...], waves: float, gain: float
) -> None:
    kernel = changed_rules(several[3], launch__waves_per_multiprocessor=waves)  # its rule estimates a quarter
    found = {f.kind: f for f in import_kernels([kernel], units().units).kernels[0].findings}
    assert found["latency-bound-launch"].estimated_gain == pytest.approx(gain, rel=0.01)
    assert "waves of blocks" in found["latency-bound-launch"].message


def test_scattered_atomics_are_no_uncoalesced_access(several: tuple[ReportedKernel, ...]) -> None:
    """ncu's rule counts their sectors with those of loads and stores; what answers them is another rewrite."""
    rule = next(rule for rule in several[0].rules if rule.identifier == "UncoalescedGlobalAccess")
    atomic = InstructionCounters(
        "several.cu",
        24,
        "REDG.E.ADD.STRONG.GPU",
        {
            "inst_executed": 1000.0,
            "thread_inst_executed_true": 32000.0,
            "memory_l2_theoretical_sectors_global": 20000.0,
            "memory_l2_theoretical_sectors_global_ideal": 4000.0,
        },
    )
    kernel = evolve(several[3], rules=(rule,), instructions=(*several[3].instructions, atomic))
    kinds = {f.kind: f for f in import_kernels([kernel], units().units).kernels[0].findings}
    assert "uncoalesced-access" not in kinds
    assert kinds["atomic-contention"].rewrites[0] == "privatize-atomics"


# ------------------------------------------------------------------------------------------- our own runs


def test_the_profiled_kernel_must_be_the_one_that_was_meant(several: tuple[ReportedKernel, ...]) -> None:
    assert launch_of(several, several[2].mangled) == several[2]
    other = launch_of(several, "_Z5otherPf")
    assert isinstance(other, Failure)
    assert "_Z5otherPf" in other.message
    silent = evolve(several[0], metrics={})
    nothing = launch_of((silent,), silent.mangled)
    assert isinstance(nothing, Failure)
    assert "measured nothing" in nothing.message


# ------------------------------------------------------------------------------------------- command line


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = unpacked("several", tmp_path)
    assert main(["profile", f"{SOURCE}:transpose<int, 4>", "--report", str(path), "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)["kernels"]
    assert [(kernel["name"], kernel["template_arguments"]) for kernel in entry] == [("transpose", "int, 4")]
    assert entry[0]["origin"] == "imported"
    line = next(row for row in entry[0]["lines"] if row["line"] == 15)
    assert line["wavefronts"] == 32 * line["ideal_wavefronts"]
    assert main(["profile", str(SOURCE), "--report", str(path)]) == 0
    text = capsys.readouterr().out
    assert "line 10: 9" in text
    assert "32.0 sectors per request" in text


def test_several_reports_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = unpacked("several", tmp_path), unpacked("no_lines", tmp_path)
    assert main(["profile", str(SOURCE), "--report", str(one), "--report", str(other), "--json"]) == 0
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    assert [kernel["metrics"]["launches_in_report"] for kernel in kernels] == [2, 1, 1, 1]


@pytest.mark.parametrize("name", ["nothing_here", "transpose<double>"])
def test_kernels_that_the_report_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    path = unpacked("several", tmp_path)
    assert main(["profile", f"{SOURCE}:{name}", "--report", str(path), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert "row_sums" in error["message"]
    assert "Traceback" not in error["message"]


def test_no_path_of_a_machine_in_the_recorded_reports() -> None:
    for path in RECORDED.glob("*.xz"):
        data = lzma.decompress(path.read_bytes())
        assert len(path.read_bytes()) < 100_000
        for word in (b"/home/", b"/root", b"/work/", b"/opt/", b"site-packages", b"python"):
            assert word not in data, (path, word)
