"""The first fence: what it refuses in a text and in an object. The attacks are data (attack_texts.toml)."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import numpy as np
import pytest

from optiml_core.device.emulator import EmulatorDevice
from optiml_core.device.emulator.allow_list import check_source
from optiml_core.device.emulator.allow_list_object import check_object
from optiml_core.device.emulator.build import CompiledObject, KernelName
from optiml_core.device.emulator.build_elf import read_elf
from optiml_core.device.emulator.build_slice import EmulatorSource
from optiml_core.device.emulator.build_toolbox import Toolbox
from optiml_core.device.protocol import Built, Contents, RunResult
from optiml_core.records import Failure, Variant
from tests.device.hostile import ONE

TEXTS = tomllib.loads((Path(__file__).parent / "attack_texts.toml").read_text())


@pytest.mark.parametrize("name", TEXTS)
def test_the_first_fence(device: EmulatorDevice, name: str) -> None:
    attack = TEXTS[name]
    result = device.build(Variant("evil.cu", attack["text"].encode(), "k"))
    if "passes" in attack and isinstance(result, Built):
        # The dangerous part is gone: what runs is watched like any other kernel.
        assert isinstance(device.run(result, ONE, Contents({"x": np.zeros(1, "i4")})), RunResult)
        return
    assert isinstance(result, Failure), f"{name} was built"
    assert result.kind in ("refused", "unsupported", "compile-error", "bad-input"), result
    assert attack.get("message", "") in result.message, result
    assert "line" not in attack or result.line == attack["line"], result
    assert "root:" not in result.message


@pytest.mark.parametrize("name", TEXTS)
def test_the_first_fence_without_the_slice(device: EmulatorDevice, name: str) -> None:
    """The same texts as if the slice had let everything through: includes, #line, host declarations."""
    attack = TEXTS[name]
    result = check_source(attack["text"]) or device._builder.compile(
        EmulatorSource(attack["text"]), KernelName("::k", "k")
    )
    if attack.get("passes") == "always":
        assert isinstance(result, CompiledObject)  # dropped, or out of reach: the hooks are there
        assert any(symbol.name.startswith("__tsan_write4") for symbol in result.elf.dynamic_symbols)
        return
    assert isinstance(result, Failure), f"{name} was built"
    assert result.kind in ("refused", "unsupported", "compile-error"), result
    assert "root:" not in result.message
    assert "passes" in attack or attack.get("message", "") in result.message, result


def test_the_object_file_is_checked_too(toolbox: Toolbox, tmp_path: Path) -> None:
    """Objects as a compiler that was tricked would make them."""
    cases = {
        'int __attribute__((section(".evil"))) v = 1;': "section",
        "static __thread int v; int* f() { return &v; }": "thread-local",
        "void __tsan_read4(void*) {}": "emulator",
        "static void __attribute__((used)) __tsan_write8(void*) {}": "emulator",
        "void optiml_device_fence() {}": "emulator",
        "int main() { return 0; }": "main",
        'static void* r() { return 0; } void f() __attribute__((ifunc("r")));': "code of its own",
        'int system(const char*); int f() { return system("x"); }': "system",
        "void __attribute__((constructor)) f() {}": "initialiser",
        "void __attribute__((destructor)) f() {}": "initialiser",
    }
    for text, words in cases.items():
        source, target = tmp_path / "o.c", tmp_path / "o.o"
        source.write_text(text)
        subprocess.run(["gcc", "-w", "-fPIC", "-c", str(source), "-o", str(target)], check=True)
        refusal = check_object(read_elf(target.read_bytes()), toolbox.exported)
        assert refusal is not None, text
        assert words in refusal.message, (text, refusal)
