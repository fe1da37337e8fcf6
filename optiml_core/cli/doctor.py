"""``optiml doctor``: what works here, what does not, and how to get it."""

from __future__ import annotations

import argparse

from rich.table import Table
from rich.text import Text

from optiml_core.cli.failure import DONE
from optiml_core.cli.output import print_json, results
from optiml_core.search.capabilities import all_capabilities


def run(arguments: argparse.Namespace) -> int:
    """Prints every capability; exit status 0 whatever is missing, since saying so is the job."""
    capabilities = all_capabilities()
    if arguments.json:
        print_json(
            {
                "capabilities": [
                    {"name": c.name, "available": c.available, "detail": c.detail, "cure": c.cure} for c in capabilities
                ]
            }
        )
        return DONE
    table = Table(box=None, pad_edge=False, show_header=False)
    for capability in capabilities:
        mark = "[green]yes[/]" if capability.available else "[yellow]no[/]"
        # Details may hold brackets of their own, such as the extra's name in a pip command.
        detail = Text(capability.detail)
        if capability.cure:
            detail.append("\ncure: ", "bold").append(capability.cure)
        table.add_row(mark, Text(capability.name, "bold"), detail)
    results().print(table)
    return DONE
