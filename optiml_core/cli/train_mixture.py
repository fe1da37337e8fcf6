"""``optiml train-mixture``: trains router and interaction layers of frozen experts; a stopped run goes on exactly."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from optiml_core.cli.failure import DONE, NEGATIVE, CommandFailure, bad_input
from optiml_core.cli.output import messages, print_json, results
from optiml_core.language_models.local import LocalSettings, load_local
from optiml_core.records import Failure

if TYPE_CHECKING:
    from optiml_core.mixture_of_thoughts.mixture import Mixture
    from optiml_core.mixture_of_thoughts.router import PromptEncoder


def run(arguments: argparse.Namespace) -> int:
    """Exit status 0 when every step is done, 1 when it was cancelled and can be resumed."""
    try:
        import torch
    except ImportError:
        raise CommandFailure(
            Failure("missing-package", "torch is not installed", cure="pip install 'optiml[llm]'")
        ) from None
    from optiml_core.mixture_of_thoughts.training import TrainingSettings
    from optiml_core.mixture_of_thoughts.training_data import read_training_data
    from optiml_core.mixture_of_thoughts.training_folder import train_in_folder

    # The data are read first: a bad line should not cost the loading of the experts.
    data = read_training_data(Path(arguments.data), arguments.held_out, arguments.longest)
    if isinstance(data, Failure):
        raise CommandFailure(data)
    settings = TrainingSettings(
        steps=arguments.steps,
        batch=arguments.batch,
        accumulate=arguments.accumulate,
        learning_rate=arguments.learning_rate,
        seed=arguments.seed,
    )
    device = arguments.device if arguments.device != "auto" else ("cuda:0" if torch.cuda.is_available() else "cpu")
    console = messages()
    left_out = f", {data.too_long} left out for their length" if data.too_long else ""
    console.print(f"{len(data.trained)} pairs to train on, {len(data.held_out)} held out{left_out}")
    mixture = open_mixture(arguments, device)
    stop = _Stop()
    quiet = arguments.progress == "none"

    def show(entry: Mapping[str, Any]) -> None:
        held_out = entry.get("held_out_bits_per_byte")
        if not quiet and (held_out is not None or entry["step"] % 10 == 0):
            text = f"step {entry['step']}/{settings.steps}: {entry['bits_per_byte']:.4f} bits a byte"
            text += f", held out {held_out:.4f}" if held_out is not None else ""
            console.print(f"{text}, {entry['tokens'] / entry['seconds']:.0f} tokens/s")

    try:
        outcome = train_in_folder(
            mixture,
            data,
            settings,
            Path(arguments.output),
            checkpoint_every=arguments.checkpoint_every,
            on_entry=show,
            cancelled=stop.asked,
        )
    except OSError as error:
        raise bad_input(f"cannot write: {error}", file=arguments.output) from None
    if isinstance(outcome, Failure):
        raise CommandFailure(outcome)
    facts = {
        "adapter": str(outcome.adapter),
        "experts": [expert.identity for expert in mixture.experts],
        "pairs": {"trained": len(data.trained), "held_out": len(data.held_out), "too_long": data.too_long},
        "steps": settings.steps,
        "done": outcome.done,
        "resumed_at": outcome.resumed,
        "held_out_bits_per_byte": outcome.held_out_bits_per_byte,
        "stopped": "finished" if outcome.finished else "cancelled",
    }
    if arguments.json:
        print_json(facts)
    else:
        resumed = f", resumed at {outcome.resumed}" if outcome.resumed else ""
        bits = outcome.held_out_bits_per_byte
        held_out = f", held out {bits:.4f} bits a byte" if bits is not None else ""
        results().print(f"{outcome.done} of {settings.steps} steps{resumed}{held_out}: {outcome.adapter}", markup=False)
    return DONE if outcome.finished else NEGATIVE


def open_mixture(arguments: argparse.Namespace, device: str) -> Mixture:
    """Loads the experts and joins them, with the settings of the command line and fresh weights from the seed."""
    import torch

    from optiml_core.mixture_of_thoughts.experts import Expert
    from optiml_core.mixture_of_thoughts.mixture import Mixture, MixtureSettings

    settings = MixtureSettings(
        stacks=arguments.stacks,
        active=min(arguments.active, len(arguments.expert)),
        shared=arguments.shared,
        heads=arguments.heads,
        interaction=not arguments.router_only,
    )
    experts = []
    for name in arguments.expert:
        loaded = load_local(LocalSettings(name, dtype=arguments.dtype, device_map=device))
        if isinstance(loaded, Failure):
            raise CommandFailure(loaded)
        # A folder may move without becoming another expert.
        experts.append(Expert(Path(name).stem, loaded.model, loaded.tokenizer))
    encoder = open_encoder(arguments.encoder, device)
    torch.manual_seed(arguments.seed)
    try:
        mixture = Mixture(experts, encoder, settings)
    except ValueError as error:
        raise bad_input(str(error)) from None
    mixture.to(device)
    return mixture


def open_encoder(name: str | None, device: str) -> PromptEncoder:
    """The frozen encoder of prompts: a folder with a sentence encoder, else hashed words."""
    from optiml_core.mixture_of_thoughts.router import HashedWordsEncoder, TransformerEncoder

    if name is None:
        return HashedWordsEncoder()
    from transformers import AutoModel, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, local_files_only=True)
        model: Any = AutoModel.from_pretrained(
            name, trust_remote_code=False, local_files_only=True, use_safetensors=True
        )
    except (OSError, ValueError) as error:
        first = (str(error).splitlines() or ["no reason given"])[0]
        raise CommandFailure(
            Failure("missing-model", f"the encoder {name} cannot be loaded: {first}", cure="give its folder")
        ) from None
    return TransformerEncoder(model.to(device), tokenizer, Path(name).stem)


class _Stop:
    """SIGINT and SIGTERM ask for the end; the step under way is finished and everything is saved."""

    def __init__(self) -> None:
        self._asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked = True

    def asked(self) -> bool:
        return self._asked
