"""The paper's experts by name, in the small and the large size, and what each needs in a prompt."""

from __future__ import annotations

from attrs import frozen


@frozen
class Preset:
    """A model on the hub. ``chat``: whether it was trained on chats; base models get a plain completion prompt.

    ``template``: the completion prompt's shape, with ``{instruction}``; HPC-Coder-V2 documents its own.
    """

    name: str
    hub: str
    chat: bool
    template: str = "// {instruction}\n"
    memory: int = 0  # bytes of weights in 16 bits


_ALPACA = (
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Response:\n"
)

PRESETS: tuple[Preset, ...] = (
    Preset("qwen2.5-coder-1.5b", "Qwen/Qwen2.5-Coder-1.5B", False, memory=3_100_000_000),
    Preset("qwen2.5-coder-7b", "Qwen/Qwen2.5-Coder-7B", False, memory=15_200_000_000),
    Preset("qwen2.5-coder-7b-instruct", "Qwen/Qwen2.5-Coder-7B-Instruct", True, memory=15_200_000_000),
    Preset("hpc-coder-v2-1.3b", "hpcgroup/hpc-coder-v2-1.3b", False, _ALPACA, 2_700_000_000),
    Preset("hpc-coder-v2-6.7b", "hpcgroup/hpc-coder-v2-6.7b", False, _ALPACA, 13_500_000_000),
    Preset("starcoder2-3b", "bigcode/starcoder2-3b", False, memory=6_100_000_000),
    Preset("starcoder2-7b", "bigcode/starcoder2-7b", False, memory=14_400_000_000),
)

SMALL_EXPERTS = ("qwen2.5-coder-1.5b", "hpc-coder-v2-1.3b", "starcoder2-3b")
LARGE_EXPERTS = ("qwen2.5-coder-7b", "hpc-coder-v2-6.7b", "starcoder2-7b")


def find_preset(name: str) -> Preset | None:
    """A preset by its name or its name on the hub, in any case."""
    wanted = name.lower()
    return next((preset for preset in PRESETS if wanted in (preset.name, preset.hub.lower())), None)
