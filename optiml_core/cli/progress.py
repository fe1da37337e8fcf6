"""Live progress of a search on stderr: one line for people, one JSON object a line for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.text import Text

from optiml_core.cli.output import SCHEMA, messages, plain
from optiml_core.search.records import SearchEvent


class ProgressLine:
    """Shows events as they come. ``mode``: ``auto`` (a live line on a terminal, else phases), ``json``, ``none``."""

    def __init__(self, mode: str, seconds: float | None) -> None:
        self._mode = mode
        self._seconds = seconds
        self._live: Live | None = None
        self._console = messages()

    @contextmanager
    def shown(self) -> Iterator[None]:
        if self._mode == "auto" and self._console.is_terminal:
            with Live(console=self._console, refresh_per_second=8, transient=True) as live:
                self._live = live
                yield
            self._live = None
        else:
            yield

    def __call__(self, event: SearchEvent) -> None:
        if self._mode == "none":
            return
        if self._mode == "json":
            sys.stderr.write(json.dumps({"schema": SCHEMA, **plain(_event_json(event))}) + "\n")
            sys.stderr.flush()
        elif self._live is not None:
            self._live.update(Text(progress_text(event, self._seconds)))
        elif event.kind in ("started", "new-best", "phase"):
            self._console.print(progress_text(event, self._seconds), markup=False)


def progress_text(event: SearchEvent, limit: float | None) -> str:
    """``34 variants, 12 s of 60, best 1.82x predicted, trying vectorize-access``."""
    parts = [f"{event.evaluations} variants", f"{event.seconds:.0f} s" + (f" of {limit:.0f}" if limit else "")]
    if event.best_speedup is not None:
        parts.append(f"best {event.best_speedup:.2f}x {event.best_kind}")
    if event.kind == "evaluated" and event.step:
        parts.append(f"{event.step}: {event.state}")
    elif event.kind == "phase":
        parts.append(event.text)
    return ", ".join(parts)


def _event_json(event: SearchEvent) -> dict[str, object]:
    return {
        "event": event.kind,
        "evaluations": event.evaluations,
        "seconds": event.seconds,
        "text": event.text,
        "state": event.state,
        "step": event.step,
        "best": None if event.best_speedup is None else {"speedup": event.best_speedup, "kind": event.best_kind},
    }
