"""Starts the language server on stdio or TCP."""

from __future__ import annotations

import logging
import os
import sys

from optiml_server.features import (
    candidate_content,
    code_action,
    code_lens,
    commands,
    diagnostics,
    hover,
    inlay_hint,
    lifecycle,
    synchronization,
)
from optiml_server.session import OptimlServer

FEATURES = (
    lifecycle,
    synchronization,
    diagnostics,
    hover,
    code_lens,
    code_action,
    inlay_hint,
    candidate_content,
    commands,
)


def make_server() -> OptimlServer:
    """A server with every feature registered."""
    server = OptimlServer()
    for feature in FEATURES:
        feature.register(server)
    return server


def start(port: int | None = None) -> int:
    """Serves until the client ends: on stdio, or on ``port`` of the loopback address."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("pygls").setLevel(logging.ERROR)  # INFO would write every message body to stderr
    server = make_server()
    if port is not None:
        server.start_tcp("127.0.0.1", port)
        return 0
    # A print or a child that inherits our pipes would break the protocol: keep private copies, close the rest off.
    stdin = os.fdopen(os.dup(0), "rb")
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    server.start_io(stdin, stdout)
    return 0


if __name__ == "__main__":
    sys.exit(start())
