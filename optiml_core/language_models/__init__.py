"""Language models behind one small interface: endpoints and local transformers."""

from optiml_core.language_models.endpoint import EndpointModel, EndpointSettings
from optiml_core.language_models.interface import (
    Answer,
    LanguageModel,
    Message,
    Sample,
    SamplingSettings,
    SpendingLimit,
    Usage,
)
from optiml_core.language_models.local import LocalModel, LocalSettings, load_local
from optiml_core.language_models.presets import LARGE_EXPERTS, PRESETS, SMALL_EXPERTS, Preset, find_preset

__all__ = [
    "LARGE_EXPERTS",
    "PRESETS",
    "SMALL_EXPERTS",
    "Answer",
    "EndpointModel",
    "EndpointSettings",
    "LanguageModel",
    "LocalModel",
    "LocalSettings",
    "Message",
    "Preset",
    "Sample",
    "SamplingSettings",
    "SpendingLimit",
    "Usage",
    "find_preset",
    "load_local",
]
