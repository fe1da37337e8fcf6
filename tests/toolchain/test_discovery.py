import os
from pathlib import Path

import pytest

from optiml_core.toolchain import TOOL_NAMES, Tool, Toolchain, capabilities, discover


def program(folder: Path, name: str, output: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)
    return str(path)


def test_every_tool_is_there_or_says_why_not() -> None:
    toolchain = discover()
    assert set(toolchain.tools) == set(TOOL_NAMES)
    for tool in toolchain.tools.values():
        if tool.path is None:
            assert tool.reason
            assert tool.cure
        else:
            assert os.path.exists(tool.path)
            assert tool.version


def test_settings_come_before_the_environment_and_both_before_the_search(tmp_path: Path) -> None:
    mine = program(tmp_path, "nvcc", "Cuda compilation tools, release 13.0, V13.0.42")
    other = program(tmp_path / "b", "nvcc", "Cuda compilation tools, release 12.9, V12.9.1")
    environment = {"OPTIML_NVCC": other, "PATH": os.environ["PATH"]}
    assert discover({"nvcc": mine}, environment=environment).tool("nvcc") == Tool("nvcc", mine, "13.0.42")
    assert discover(environment=environment).tool("nvcc") == Tool("nvcc", other, "12.9.1")
    by_home = {"CUDA_HOME": str(tmp_path / "toolkit"), "PATH": ""}
    ncu = program(tmp_path / "toolkit" / "bin", "ncu", "Version 2025.3.1.0 (build 1)")
    assert discover(environment=by_home).tool("ncu") == Tool("ncu", ncu, "2025.3.1.0")


@pytest.mark.parametrize("name", ["nvcc", "nvrtc", "g++", "cuda_headers"])
def test_a_path_that_is_set_and_wrong_is_not_replaced(name: str) -> None:
    tool = discover({name: "/nowhere/at/all"}).tool(name)
    assert tool.path is None
    assert "/nowhere/at/all" in tool.reason
    assert "setting" in tool.cure


def test_a_program_that_is_something_else_is_not_taken(tmp_path: Path) -> None:
    tool = discover({"nvcc": program(tmp_path, "nvcc", "hello")}).tool("nvcc")
    assert tool.path is None
    assert "version" in tool.reason


def test_a_machine_with_nothing_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    import optiml_core.toolchain.discovery as discovery

    for search in ("_from_packages", "_headers_from_packages"):
        monkeypatch.setattr(discovery, search, lambda name: None)
    monkeypatch.setattr(discovery, "_library_from_packages", lambda: None)
    monkeypatch.setattr(discovery, "_executable", lambda path: None)
    monkeypatch.setattr(discovery, "_folder_with", lambda folder, file: None)
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(()))
    toolchain = discover(environment={"PATH": ""})
    assert all(tool.path is None and tool.reason and tool.cure for tool in toolchain.tools.values())
    assert toolchain.include_folders == ()
    by_name = {capability.name: capability for capability in capabilities(toolchain)}
    assert not by_name["NVRTC (compiles candidates)"].available
    assert "optiml[cuda]" in by_name["NVRTC (compiles candidates)"].cure


def test_what_is_missing_has_a_cure_and_what_is_there_a_detail() -> None:
    found = capabilities(discover())
    assert len({capability.name for capability in found}) == len(found) >= 15
    for capability in found:
        assert capability.detail
        assert bool(capability.cure) == (not capability.available), capability


def test_an_old_compiler_is_not_enough() -> None:
    toolchain = discover()
    old = Toolchain({**toolchain.tools, "g++": Tool("g++", "/usr/bin/g++", "11.4.0")})
    found = next(capability for capability in capabilities(old) if capability.name.startswith("g++"))
    assert not found.available
    assert "12" in found.cure
