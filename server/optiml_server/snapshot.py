"""The buffer as a file that the engine can read: unsaved text counts, and its includes are still found."""

from __future__ import annotations

import hashlib
from pathlib import Path

from attrs import frozen
from pygls.workspace import TextDocument

from optiml_server.documents import path_of
from optiml_server.session import OptimlServer


@frozen
class Snapshot:
    """``file`` holds the text; ``flags`` let it find what lies beside the original."""

    file: Path
    text: str
    flags: tuple[str, ...]


def take_snapshot(server: OptimlServer, document: TextDocument, purpose: str) -> Snapshot:
    """Writes the buffer into the server's private folder, under its own name."""
    path = Path(path_of(document))
    text = document.source
    data = text.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(document.uri.encode() + data + purpose.encode()).hexdigest()[:16]
    folder = server.private_folder() / digest
    folder.mkdir(exist_ok=True)
    name = path.name if path.suffix else "untitled.cu"
    file = folder / name
    file.write_bytes(data)
    flags = ("-I", str(path.parent)) if path.is_absolute() and path.parent.is_dir() else ()
    return Snapshot(file, text, flags)


def engine_arguments(server: OptimlServer, snapshot: Snapshot, document: TextDocument) -> list[str]:
    """What every command of the engine gets from the settings, the flags last."""
    settings = server.settings
    arguments = ["--device", settings.device]
    if settings.gpu:
        arguments += ["--gpu", settings.gpu]
    if settings.build_folder:
        arguments += ["-p", settings.build_folder]
    return [*arguments, "--", *snapshot.flags] if snapshot.flags else arguments
