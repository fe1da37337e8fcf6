"""A training in a folder: ``checkpoint.safetensors`` to go on from, ``log.jsonl`` to plot, ``adapter.safetensors``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from optiml_core.mixture_of_thoughts.adapter_files import save_adapter
from optiml_core.mixture_of_thoughts.checkpoints import load_checkpoint, save_checkpoint
from optiml_core.mixture_of_thoughts.mixture import Mixture
from optiml_core.mixture_of_thoughts.training import Training, TrainingSettings, run_training
from optiml_core.mixture_of_thoughts.training_data import TrainingData
from optiml_core.records import Failure

CHECKPOINT, LOG, ADAPTER = "checkpoint.safetensors", "log.jsonl", "adapter.safetensors"


@frozen
class TrainingOutcome:
    """``resumed``: steps that an earlier run had done. ``finished``: all steps are done; else it was cancelled.

    ``held_out_bits_per_byte``: the last one measured, None if none was.
    """

    adapter: Path
    resumed: int
    done: int
    finished: bool
    held_out_bits_per_byte: float | None


def train_in_folder(
    mixture: Mixture,
    data: TrainingData,
    settings: TrainingSettings,
    folder: Path,
    *,
    checkpoint_every: int = 100,
    on_entry: Callable[[Mapping[str, Any]], None] = lambda entry: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> TrainingOutcome | Failure:
    """Trains, or goes on where an earlier run in ``folder`` stopped, however it ended.

    A folder that holds another run (other data, experts or settings) is refused. Raises OSError where the folder
    cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    training = Training(mixture, settings)
    checkpoint = folder / CHECKPOINT
    if checkpoint.exists():
        failure = load_checkpoint(training, data.digest, checkpoint)
        if failure is not None:
            return failure
    resumed = training.done
    entries = _entries_up_to(folder / LOG, resumed)
    held_out = [entry["held_out_bits_per_byte"] for entry in entries if "held_out_bits_per_byte" in entry]
    # A killed run may have logged steps after its last checkpoint; they are done again, and logged again.
    (folder / LOG).write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    with (folder / LOG).open("a", encoding="utf-8") as log:

        def record(entry: Mapping[str, Any]) -> None:
            log.write(json.dumps(entry) + "\n")
            log.flush()
            if "held_out_bits_per_byte" in entry:
                held_out.append(entry["held_out_bits_per_byte"])
            if training.done % checkpoint_every == 0:
                save_checkpoint(training, data.digest, checkpoint)
            on_entry(entry)

        failure = run_training(
            training, [one.pair for one in data.trained], [one.pair for one in data.held_out], record, cancelled
        )
    if failure is not None:
        return failure
    save_checkpoint(training, data.digest, checkpoint)
    mixture.eval()
    save_adapter(mixture, folder / ADAPTER)
    return TrainingOutcome(
        folder / ADAPTER, resumed, training.done, training.done >= settings.steps, held_out[-1] if held_out else None
    )


def read_log(path: Path) -> tuple[dict[str, Any], ...]:
    """The log's entries in order; a last line cut off by a kill is left out."""
    if not path.exists():
        return ()
    found = []
    for line in path.read_text("utf-8").splitlines():
        try:
            found.append(dict(json.loads(line)))
        except ValueError:
            break
    return tuple(found)


def _entries_up_to(path: Path, step: int) -> list[dict[str, Any]]:
    return [entry for entry in read_log(path) if entry["step"] <= step]
