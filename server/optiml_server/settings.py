"""The server's settings: typed, validated, with defaults that work. A wrong value keeps its default and is said."""

from __future__ import annotations

from typing import Any, Literal

from attrs import fields, frozen

DEVICES = ("auto", "emulator")


@frozen
class Settings:
    """Section ``optiml`` of the editor's configuration; package.json describes each for people.

    ``gpu``: what predictions are for ("" for the default). ``device``: auto, emulator or cuda:N.
    ``seconds``: budget of a search (0 for the default). ``run_on_open``: profile the visible kernel when a file opens.
    """

    gpu: str = ""
    device: str = "auto"
    seconds: float = 0.0
    allow: tuple[str, ...] = ()
    build_folder: str = ""
    run_on_open: bool = True
    diagnostics: bool = True
    code_lens: bool = True
    inlay_hints: bool = False
    rewrites_only: bool = False


NAMES: dict[str, str] = {
    "gpu": "gpu",
    "device": "device",
    "seconds": "seconds",
    "allow": "allow",
    "buildFolder": "build_folder",
    "runOnOpen": "run_on_open",
    "diagnostics": "diagnostics",
    "codeLens": "code_lens",
    "inlayHints": "inlay_hints",
    "rewritesOnly": "rewrites_only",
}

Kind = Literal["ok", "wrong"]


def read_settings(value: Any) -> tuple[Settings, tuple[str, ...]]:
    """The settings in a client's answer, and what was wrong with it, one sentence each."""
    if value is None:
        return Settings(), ()
    if not isinstance(value, dict):
        return Settings(), ("the section `optiml` of the configuration is not an object; defaults are in force",)
    defaults = Settings()
    types = {field.name: type(getattr(defaults, field.name)) for field in fields(Settings)}
    found: dict[str, Any] = {}
    wrong: list[str] = []
    for key, name in NAMES.items():
        given = value.get(key)
        if given is None:
            continue
        wanted = types[name]
        if wanted is tuple and isinstance(given, list) and all(isinstance(item, str) for item in given):
            found[name] = tuple(given)
        elif wanted is float and isinstance(given, (int, float)) and not isinstance(given, bool) and given >= 0:
            found[name] = float(given)
        elif isinstance(given, wanted) and wanted in (str, bool):
            found[name] = given
        else:
            wrong.append(f"optiml.{key} has the value {given!r}, which is not valid; the default is in force")
    device = found.get("device", "auto")
    if device not in DEVICES and not (device.startswith("cuda:") and device[5:].isdigit()):
        wrong.append(f"optiml.device is {device!r}; it must be auto, emulator or cuda:N")
        found.pop("device")
    return Settings(**found), tuple(wrong)
