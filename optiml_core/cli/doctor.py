"""``optiml doctor``: what works here, what does not, and how to get it."""

from __future__ import annotations

import argparse

from rich.table import Table

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
        detail = capability.detail + (f"\n[bold]cure:[/] {capability.cure}" if capability.cure else "")
        table.add_row(mark, f"[bold]{capability.name}[/]", detail)
    results().print(table)
    return DONE
