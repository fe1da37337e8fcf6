"""Which models the user configured: from their own configuration folder or the environment, never from a workspace.

`models.toml` in the user's configuration folder:

    [[model]]
    endpoint = "http://localhost:11434/v1"
    model = "qwen2.5-coder:7b"
    key_variable = ""            # the environment variable that holds the key, if one is needed

    [[model]]
    local = "qwen2.5-coder-1.5b" # a preset, a folder, a GGUF file
    dtype = "bfloat16"

or, for one endpoint, the variables OPTIML_ENDPOINT, OPTIML_MODEL and OPTIML_KEY.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs
from attrs import field, frozen

from optiml_core.language_models.endpoint import EndpointModel, EndpointSettings
from optiml_core.language_models.interface import LanguageModel, SpendingLimit
from optiml_core.language_models.local import LocalSettings, load_local
from optiml_core.records import Capability, Failure

FILE_NAME = "models.toml"
ENDPOINT_KEYS = {"endpoint", "model", "key_variable", "price_prompt", "price_answer", "most_tokens", "most_cost"}
LOCAL_KEYS = {"local", "dtype", "device_map", "four_bit", "download"}


@frozen
class ConfiguredModel:
    """One model as configured, not yet opened. ``limit``: the user's budget for a search."""

    settings: EndpointSettings | LocalSettings
    limit: SpendingLimit = field(factory=SpendingLimit, eq=False)
    key: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        return self.settings.model

    def open(self) -> LanguageModel | Failure:
        """Opens it: an endpoint is only checked for sense, a local model is loaded."""
        if isinstance(self.settings, EndpointSettings):
            return EndpointModel.from_settings(self.settings, self.key or None)
        return load_local(self.settings)


def configuration_file() -> Path:
    return platformdirs.user_config_path("optiml") / FILE_NAME


def configured_models(
    path: Path | None = None, environment: Mapping[str, str] | None = None
) -> tuple[ConfiguredModel, ...] | Failure:
    """All configured models; none is an empty tuple. A wrong file is a Failure with its place."""
    environment = os.environ if environment is None else environment
    found: list[ConfiguredModel] = []
    if environment.get("OPTIML_ENDPOINT"):
        settings = EndpointSettings(environment["OPTIML_ENDPOINT"], environment.get("OPTIML_MODEL", ""))
        found.append(ConfiguredModel(settings, key=environment.get("OPTIML_KEY", "")))
    file = path or configuration_file()
    if not file.is_file():
        return tuple(found)
    try:
        tables = tomllib.loads(file.read_text("utf-8")).get("model", [])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Failure("bad-input", str(error), str(file), cure="mend the file or remove it")
    if not isinstance(tables, list):
        return Failure("bad-input", "`model` must be a list of tables", str(file), cure="write `[[model]]`")
    for number, table in enumerate(tables, 1):
        model = _read(table, number, str(file)) if isinstance(table, dict) else None
        if isinstance(model, Failure):
            return model
        if model is None:
            return Failure("bad-input", f"model {number} is no table", str(file), cure="write `[[model]]`")
        found.append(model)
    return tuple(found)


def _read(table: dict[str, Any], number: int, file: str) -> ConfiguredModel | Failure:
    allowed = ENDPOINT_KEYS if "endpoint" in table else LOCAL_KEYS
    unknown = sorted(set(table) - allowed)
    if unknown or not ("endpoint" in table) ^ ("local" in table):
        what = f"unknown keys {', '.join(unknown)}" if unknown else "needs either `endpoint` or `local`"
        return Failure("bad-input", f"model {number}: {what}", file, cure=f"keys are {', '.join(sorted(allowed))}")
    try:
        if "endpoint" in table:
            settings: EndpointSettings | LocalSettings = EndpointSettings(
                str(table["endpoint"]), str(table.get("model", "")), str(table.get("key_variable", ""))
            )
            limit = SpendingLimit(
                int(table["most_tokens"]) if "most_tokens" in table else None,
                float(table["most_cost"]) if "most_cost" in table else None,
                (float(table.get("price_prompt", 0)), float(table.get("price_answer", 0))),
            )
            return ConfiguredModel(settings, limit)
        settings = LocalSettings(
            str(table["local"]),
            str(table.get("dtype", "auto")),
            str(table.get("device_map", "auto")),
            bool(table.get("four_bit", False)),
            bool(table.get("download", False)),
        )
        return ConfiguredModel(settings)
    except (TypeError, ValueError) as error:
        return Failure("bad-input", f"model {number}: {error}", file)


def model_capabilities() -> tuple[Capability, ...]:
    """For `optiml doctor`: where code would go, or how to configure a model."""
    models = configured_models()
    if isinstance(models, Failure):
        return (Capability("language model", False, f"{models.file}: {models.message}", models.cure),)
    if not models:
        cure = f"set OPTIML_ENDPOINT and OPTIML_MODEL, or write {configuration_file()}"
        return (Capability("language model", False, "none is configured: own rewrites only, no code is sent", cure),)
    found = []
    for model in models:
        if isinstance(model.settings, LocalSettings):
            found.append(Capability("language model", True, f"{model.name}, on this machine"))
            continue
        opened = model.open()
        if isinstance(opened, Failure):
            found.append(Capability("language model", False, f"{model.name}: {opened.message}", opened.cure))
        else:
            found.append(Capability("language model", True, f"{model.name}; code is sent to {opened.destination}"))
    return tuple(found)
