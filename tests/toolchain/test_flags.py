import json
from pathlib import Path

import pytest

from optiml_core.records import Failure
from optiml_core.toolchain import allowed_flags, architecture_of, project_flags
from optiml_core.toolchain.compile_commands import ProjectFlags


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("-I inc -Iinc2 --include-path inc3 --include-path=inc4", "-Iinc -Iinc2 -Iinc3 -Iinc4"),
        ("-isystem a -isystem=b", "-isystem=a -isystem=b"),
        ("-DN -D M=4 -DF(x)=x --define-macro=A=b=c", "-DN -DM=4 -DF(x)=x -DA=b=c"),
        ("-UN -U M", "-UN -UM"),
        ("-std=c++17 --std c++20 -std gnu++14", "-std=c++17 -std=c++20 -std=gnu++14"),
        ("-O3 -O 2", "-O3 -O2"),
        ("-arch=sm_90 -arch compute_80 --gpu-architecture=sm_120", "-arch=sm_90 -arch=sm_80 -arch=sm_120"),
        ("-gencode arch=compute_80,code=sm_80", "-gencode=arch=compute_80,code=sm_80"),
        ("-gencode=arch=compute_90a,code=[sm_90a,compute_90a]", "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]"),
        ("-maxrregcount=64 --maxrregcount 32", "-maxrregcount=64 -maxrregcount=32"),
        ("-use_fast_math --use_fast_math", "-use_fast_math -use_fast_math"),
        ("--expt-relaxed-constexpr --extended-lambda", "--expt-relaxed-constexpr --expt-extended-lambda"),
        ("-fmad=false -ftz true", "-fmad=false -ftz=true"),
    ],
)
def test_allowed_flags_come_out_in_one_spelling(before: str, after: str) -> None:
    assert allowed_flags(before.split()) == tuple(after.split())


@pytest.mark.parametrize(
    "flags",
    [
        ["-Xcompiler", "-fplugin=evil.so"],
        ["-Xcompiler=-fplugin=evil.so"],
        ["-ccbin", "evil"],
        ["-ccbin=evil"],
        ["--compiler-bindir=evil"],
        ["@flags.txt"],
        ["--options-file", "flags.txt"],
        ["-optf=flags.txt"],
        ["-include", "/etc/passwd"],
        ["--pre-include=/etc/passwd"],
        ["-Xptxas", "-v"],
        ["-Xlinker", "-lx"],
        ["-lx"],
        ["-fplugin=evil.so"],
        ["-wrapper", "evil"],
        ["-B", "folder"],
        ["--dryrun"],
        ["-o", "/home/x"],
        ["--run"],
        ["-pch"],
        ["--use-pch=evil.pch"],
        ["-Ofast.so"],
        ['-DA\n#include "/etc/passwd"'],
        ["-D", 'A=1\n#include "/etc/passwd"'],
        ["-D1"],
        ["-D"],
        ["-I"],
        ["-I", "-ccbin"],
        ["-I@file"],
        ["-std=evil"],
        ["-arch=native"],
        ["-arch=sm_70"],
        ["-gencode=arch=compute_80,code=sm_80;evil"],
        ["-maxrregcount=x"],
        ["file.cu"],
        ["-"],
        [""],
        ["-isystemx\0"],
    ],
)
def test_other_flags_are_refused(flags: list[str]) -> None:
    failure = allowed_flags(["-DGOOD", *flags])
    assert isinstance(failure, Failure)
    assert failure.kind == "refused"


@pytest.mark.parametrize(
    ("flags", "architecture"),
    [
        ("-O3", None),
        ("-arch=sm_80 -arch=sm_90a", "sm_90a"),
        ("-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90", "sm_90"),
        ("-gencode=arch=compute_70,code=sm_70", None),
        ("-gencode=arch=compute_90,code=sm_90 -arch=sm_75", "sm_75"),
    ],
)
def test_the_projects_architecture(flags: str, architecture: str | None) -> None:
    assert architecture_of(flags.split()) == architecture


def write_commands(folder: Path, *entries: object) -> None:
    (folder / "compile_commands.json").write_text(json.dumps(list(entries)))


def test_flags_of_a_file_in_a_build_folder(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "build").mkdir()
    file = tmp_path / "src" / "a.cu"
    file.touch()
    write_commands(
        tmp_path / "build",
        {"directory": str(tmp_path / "build"), "file": "../src/b.cu", "command": "nvcc -DB -c ../src/b.cu"},
        {
            "directory": str(tmp_path / "build"),
            "file": "../src/a.cu",
            "command": '/usr/bin/nvcc -forward-unknown-to-host-compiler -DA=\\"x\\" -I../include -isystem=/opt/x -O3 '
            "-std=c++17 --generate-code=arch=compute_90,code=[sm_90] -Xcompiler -fPIC -include cfg.h -x cu -rdc=true "
            "-c ../src/a.cu -o a.o",
        },
    )
    found = project_flags(tmp_path / "build", file)
    assert isinstance(found, ProjectFlags)
    assert found.flags == (
        '-DA="x"',
        f"-I{tmp_path}/include",
        "-isystem=/opt/x",
        "-O3",
        "-std=c++17",
        "-gencode=arch=compute_90,code=[sm_90]",
    )
    assert [problem.message.split("'")[2] for problem in found.problems] == ["-include", "-rdc=true"]
    header = project_flags(tmp_path / "build", tmp_path / "src" / "x.cuh")
    assert isinstance(header, ProjectFlags)
    assert header.flags == ("-DB",)


def test_arguments_as_a_list(tmp_path: Path) -> None:
    (tmp_path / "a.cu").touch()
    write_commands(tmp_path, {"directory": str(tmp_path), "file": "a.cu", "arguments": ["nvcc", "-D", "N=1 2", "a.cu"]})
    found = project_flags(tmp_path / "compile_commands.json", tmp_path / "a.cu")
    assert isinstance(found, ProjectFlags)
    assert found.flags == ("-DN=1 2",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        "[1, null]",
        '[{"file": 3}]',
        '[{"file": "a.cu"}]',
        '[{"file": "a.cu", "command": "\'"}]',
        "[" * 100000,
    ],
)
def test_a_malformed_file_is_bad_input(tmp_path: Path, text: str) -> None:
    (tmp_path / "compile_commands.json").write_text(text)
    failure = project_flags(tmp_path, tmp_path / "a.cu")
    assert isinstance(failure, Failure)
    assert failure.kind == "bad-input"


def test_a_missing_file_says_how_to_get_one(tmp_path: Path) -> None:
    failure = project_flags(tmp_path, tmp_path / "a.cu")
    assert isinstance(failure, Failure)
    assert "CMAKE_EXPORT_COMPILE_COMMANDS" in failure.cure
