"""Headers and callers beside a file take part in what it launches."""

from __future__ import annotations

from pathlib import Path

from optiml_core.records import Launch
from optiml_core.source import SourceFile, TranslationUnit, parse
from optiml_core.workload import find_workload, resolve_launch
from optiml_core.workload.neighbours import related_units, run_arguments

KERNEL = "__global__ void f(const real* x, real* y, int n) { int i = threadIdx.x; if (i < n) y[i] = x[i]; }\n"
LAUNCHER = "void run(real* x, real* y, int n) { f<<<1, THREADS>>>(x, y, n); }\n"
MAIN = (
    "int main() {{ int n = {n}; real *x, *y; cudaMalloc(&x, n * sizeof(real)); cudaMalloc(&y, n * sizeof(real)); "
    "run(x, y, n); }}\n"
)
COMMON = "#pragma once\n#ifdef DOUBLE\ntypedef double real;\n#else\ntypedef float real;\n#endif\n#define THREADS 64\n"


def project(folder: Path, files: dict[str, str]) -> None:
    (folder / ".git").mkdir(parents=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def unit_at(path: Path) -> TranslationUnit:
    source = SourceFile.read(str(path))
    assert isinstance(source, SourceFile)
    return parse(source)


def text_of(path: Path) -> str:
    unit = unit_at(path)
    workload = find_workload(unit, unit.kernels[0])
    assert isinstance(resolve_launch(workload), Launch), workload.problems
    return workload.text.replace("// optiml: ", "").replace("\n", ", ")


def test_types_and_constants_come_from_an_included_header(tmp_path: Path) -> None:
    project(
        tmp_path,
        {
            "src/k.cu": '#define DOUBLE\n#include "../include/common.h"\n' + KERNEL + LAUNCHER + MAIN.format(n=50),
            "include/common.h": COMMON,
        },
    )
    assert text_of(tmp_path / "src/k.cu") == "n = 50, THREADS = 64, x[n]: normal, y[n], grid = 1, block = THREADS"
    unit = unit_at(tmp_path / "src/k.cu")
    launch = resolve_launch(find_workload(unit, unit.kernels[0]))
    assert isinstance(launch, Launch)
    assert launch.arguments[0].element.dtype == "float64"


def test_a_kernel_of_a_header_takes_its_launch_from_a_file_that_includes_it(tmp_path: Path) -> None:
    project(
        tmp_path,
        {
            "kernels/f.cuh": '#pragma once\n#include "common.h"\n' + KERNEL,
            "kernels/common.h": COMMON,
            "runner.cu": '#include "kernels/f.cuh"\n' + LAUNCHER,
            "main.cu": "void run(float*, float*, int);\ntypedef float real;\n" + MAIN.format(n=70),
            "unrelated.cu": "__global__ void g() {}\nint main() { g<<<1, 1>>>(); }\n",
        },
    )
    assert text_of(tmp_path / "kernels/f.cuh") == (
        "n = 70, THREADS = 64, x[n]: normal, y[n], grid = 1, block = THREADS"
    )
    unit = unit_at(tmp_path / "kernels/f.cuh")
    names = {Path(one.source.path).name for one in related_units(unit, unit.kernels[0])}
    assert names == {"common.h", "runner.cu", "main.cu"}


def test_a_kernel_of_an_included_header_may_be_asked_for_by_the_including_file(tmp_path: Path) -> None:
    project(
        tmp_path,
        {
            "f.cuh": "// optiml: y[n]\n" + KERNEL.replace("real", "float"),
            "main.cu": '#include "f.cuh"\n#define THREADS 32\n'
            + (LAUNCHER + MAIN.format(n=9)).replace("real", "float"),
        },
    )
    including, header = unit_at(tmp_path / "main.cu"), unit_at(tmp_path / "f.cuh")
    workload = find_workload(including, header.kernels[0])
    assert workload.origin == "declared"
    assert "n = 9" in workload.text


def test_nothing_outside_the_project_is_read(tmp_path: Path) -> None:
    (tmp_path / "outside.h").write_text("#define THREADS 64\n")
    (tmp_path / "caller.cu").write_text("void run(float*, float*, int);\n" + MAIN.format(n=5).replace("real", "float"))
    project(
        tmp_path / "inner",
        {"k.cu": '#include "../outside.h"\n' + (KERNEL + LAUNCHER).replace("real", "float")},
    )
    unit = unit_at(tmp_path / "inner/k.cu")
    assert related_units(unit, unit.kernels[0]) == ()


def test_a_text_that_is_no_file_has_no_neighbours() -> None:
    unit = parse(SourceFile("nowhere/k.cu", KERNEL.encode()))
    assert related_units(unit, unit.kernels[0]) == ()


def test_a_makefile_says_what_the_program_is_run_with(tmp_path: Path) -> None:
    program = (KERNEL + LAUNCHER + MAIN).replace("real", "float").replace("THREADS", "64")
    text = program.replace("int main()", "int main(int argc, char** argv)").replace("{n}", "atoi(argv[1])")
    text = text.replace("{{", "{").replace("}}", "}")
    project(tmp_path, {"k.cu": text, "Makefile": "run: k\n\tnvcc -o k k.cu\n\t$(LAUNCHER) ./$(program) 4321 10\n"})
    unit = unit_at(tmp_path / "k.cu")
    assert run_arguments(unit) == ("4321", "10")
    workload = find_workload(unit, unit.kernels[0])
    assert "n = 4321" in workload.text
    assert ["the Makefile beside the file" in problem.message for problem in workload.problems] == [True]
