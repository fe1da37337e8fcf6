"""The language models that the user configured, opened for a command."""

from __future__ import annotations

from optiml_core.cli.failure import BAD_INPUT, CommandFailure
from optiml_core.cli.output import messages
from optiml_core.language_models.configuration import configured_models
from optiml_core.mixture_of_thoughts.model import open_configured
from optiml_core.records import Failure
from optiml_core.search.run import OpenModel


def open_models() -> list[OpenModel]:
    """The models that the user configured. One that cannot be opened is said, and the command goes on without it."""
    configured = configured_models()
    if isinstance(configured, Failure):
        raise CommandFailure(configured, BAD_INPUT)
    opened: list[OpenModel] = []
    for entry in configured:
        model = open_configured(entry)
        if isinstance(model, Failure):
            messages().print(f"not used: {entry.name}: {model.message}. {model.cure}", markup=False)
            continue
        opened.append((model, entry.limit))
    return opened
