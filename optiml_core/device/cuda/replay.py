"""Launches one kernel once, in a process of its own: what ncu and compute-sanitizer are run on.

    python -m optiml_core.device.cuda.replay REQUEST

REQUEST is a file that `write_replay` made: our own process wrote it and this one reads it back, nobody else.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from optiml_core.device.cuda.requests import KernelImage, RunRequest
from optiml_core.records import Failure


def write_replay(path: Path, index: int, image: KernelImage, request: RunRequest) -> None:
    """Writes a request for ``main``; the file must lie in a private folder."""
    path.write_bytes(pickle.dumps((index, image, request)))


def main(arguments: list[str]) -> int:
    """0 if the launch ended, 1 with the reason on stderr."""
    from optiml_core.device.cuda.driver import Gpu

    index, image, request = pickle.loads(Path(arguments[0]).read_bytes())
    gpu = Gpu(index)
    failure = gpu.load(image)
    answer = failure if failure is not None else gpu.run(request)
    if isinstance(answer, Failure):
        sys.stderr.write(answer.message + "\n")
        return 1
    gpu.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
