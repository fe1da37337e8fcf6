"""Which models the user configured: from their own configuration folder or the environment, never from a workspace.

`models.toml` in the user's configuration folder:

    [[model]]
    endpoint = "http://localhost:11434/v1"
    model = "qwen2.5-coder:7b"
    key_variable = ""            # the environment variable that holds the key, if one is needed

    [[model]]
    local = "qwen2.5-coder-1.5b" # a preset, a folder, a GGUF file
    dtype = "bfloat16"

    [[model]]
    mixture = "/home/me/mixture" # what `optiml train-mixture` wrote, with the experts it was trained with
    experts = ["qwen2.5-coder-1.5b", "starcoder2-3b"]

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
MIXTURE_KEYS = {"mixture", "experts", "dtype", "device_map"}


@frozen
class TrainedMixtureSettings:
    """A mixture of thoughts: ``adapter`` is the file or the folder of `optiml train-mixture`; ``experts`` as then."""

    adapter: str
    experts: tuple[str, ...]
    dtype: str = "auto"
    device_map: str = "auto"

    @property
    def model(self) -> str:
        return f"mixture of {', '.join(self.experts)}"


@frozen
class ConfiguredModel:
    """One model as configured, not yet opened. ``limit``: the user's budget for a search."""

    settings: EndpointSettings | LocalSettings | TrainedMixtureSettings
    limit: SpendingLimit = field(factory=SpendingLimit, eq=False)
    key: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        return self.settings.model

    def open(self) -> LanguageModel | Failure:
        """Opens it: an endpoint is only checked for sense, a local model is loaded.

        A mixture is opened by ``mixture_of_thoughts.model.open_configured``.
        """
        if isinstance(self.settings, TrainedMixtureSettings):
            return Failure("unsupported", "a mixture is opened with its experts", self.settings.adapter)
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
    kinds = [kind for kind in ("endpoint", "local", "mixture") if kind in table]
    allowed = {"endpoint": ENDPOINT_KEYS, "mixture": MIXTURE_KEYS}.get(kinds[0] if kinds else "", LOCAL_KEYS)
    unknown = sorted(set(table) - allowed)
    if unknown or len(kinds) != 1:
        what = f"unknown keys {', '.join(unknown)}" if unknown else "needs `endpoint`, `local` or `mixture`"
        return Failure("bad-input", f"model {number}: {what}", file, cure=f"keys are {', '.join(sorted(allowed))}")
    try:
        if "mixture" in table:
            experts = table.get("experts")
            if not isinstance(experts, list) or not experts or not all(isinstance(one, str) for one in experts):
                return Failure("bad-input", f"model {number}: `experts` must be a list of names", file)
            how = (str(table.get("dtype", "auto")), str(table.get("device_map", "auto")))
            return ConfiguredModel(TrainedMixtureSettings(str(table["mixture"]), tuple(experts), *how))
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
        if isinstance(model.settings, TrainedMixtureSettings):
            # Only said, not loaded: `doctor` must stay quick.
            there = Path(model.settings.adapter).exists()
            detail = f"{model.name}, joined by {model.settings.adapter}, on this machine"
            cure = "" if there else "give the folder that `optiml train-mixture` wrote"
            missing = f"{model.name}: no adapter at {model.settings.adapter}"
            found.append(Capability("language model", there, detail if there else missing, cure))
            continue
        if isinstance(model.settings, LocalSettings):
            found.append(Capability("language model", True, f"{model.name}, on this machine"))
            continue
        opened = model.open()
        if isinstance(opened, Failure):
            found.append(Capability("language model", False, f"{model.name}: {opened.message}", opened.cure))
        else:
            found.append(Capability("language model", True, f"{model.name}; code is sent to {opened.destination}"))
    if len(models) > 1:
        detail = f"all {len(models)} propose; what arrives is pooled, checked and ranked"
        found.append(Capability("models together", True, detail))
    return tuple(found)
