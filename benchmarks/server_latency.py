"""Latency and memory of the language server, beside clangd's on the same file in the same run.

    python benchmarks/server_latency.py [--requests 200] [--clangd PATH] [--search] [--json OUT]

Speaks the protocol over pipes as an editor does: opens a file of 5,000 lines, asks for hovers at kernels, code lenses
and code actions, edits and waits for diagnostics, then opens ten files and reads the resident memory. ``--search`` lets
`optiml optimize` run beside it. All times are the client's: request written to answer read, milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any

ROOT = Path(__file__).parents[1]
KERNEL = """// optiml: n = 1000000, x[n]: normal, y[n], block = 256, grid = ceil_div(n, 256)
__global__ void scale_{0}(const float* x, float* y, int n, int stride) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {{
    float sum = 0.0f;
    for (int k = 0; k < 8; k++) {{
      sum += x[(i + k * stride) % n];
    }}
    y[i] = sum * {0}.0f;
  }}
}}

void run_{0}(const float* x, float* y, int n) {{
  scale_{0}<<<(n + 255) / 256, 256>>>(x, y, n, 32);
}}

"""


class Client:
    """A language server behind pipes."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str] | None = None) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self.number = 0
        self.answers: dict[int, Queue[Any]] = {}
        self.diagnostics: Queue[tuple[str, Any]] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.send({"method": method, "params": params})

    def ask(self, method: str, params: dict[str, Any], seconds: float = 60) -> Any:
        self.number += 1
        queue = self.answers[self.number] = Queue()
        self.send({"id": self.number, "method": method, "params": params})
        return queue.get(timeout=seconds)

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while line := stream.readline():
            length = 0
            while line.strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
                line = stream.readline()
            message = json.loads(stream.read(length))
            if "method" in message and "id" in message:
                # A question to the client: configuration and registrations get empty answers.
                items = (
                    message.get("params", {}).get("items") if message["method"] == "workspace/configuration" else None
                )
                self.send({"id": message["id"], "result": [{} for _ in items] if items else None})
            elif message.get("method") == "textDocument/publishDiagnostics":
                self.diagnostics.put((message["params"]["uri"], message["params"]))
            elif "id" in message and message["id"] in self.answers:
                self.answers[message["id"]].put(message.get("result", message.get("error")))

    def memory(self) -> dict[str, int]:
        """Resident MiB of the server's process, and of its children: jobs of ours, the server behind a wrapper."""
        found = {"server": 0, "children": 0}
        for status in Path("/proc").glob("[0-9]*/status"):
            with contextlib.suppress(OSError, IndexError, ValueError):
                text = status.read_text()
                size = int(text.split("VmRSS:")[1].split()[0]) // 1024
                if status.parent.name == str(self.process.pid):
                    found["server"] = size
                elif text.split("PPid:")[1].split()[0] == str(self.process.pid):
                    found["children"] += size
        return found

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.ask("shutdown", {}, 10)
            self.notify("exit", {})
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.process.kill()


def spread(milliseconds: list[float]) -> dict[str, float]:
    ordered = sorted(milliseconds)
    return {
        "p50": round(ordered[len(ordered) // 2], 2),
        "p99": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], 2),
        "count": len(ordered),
    }


def measure(command: list[str], folder: Path, text: str, requests: int, environment: dict[str, str]) -> dict[str, Any]:
    """All the numbers of one server."""
    client = Client(command, folder, environment)
    capabilities = {"workspace": {"configuration": True}, "textDocument": {"publishDiagnostics": {}}}
    client.ask("initialize", {"processId": os.getpid(), "rootUri": folder.as_uri(), "capabilities": capabilities})
    found: dict[str, Any] = {"initialize ms": round((time.perf_counter() - client.started) * 1000)}
    client.notify("initialized", {})
    uri = (folder / "large.cu").as_uri()
    lines = text.split("\n")
    kernels = [number for number, line in enumerate(lines) if line.startswith("__global__")]
    opened = time.perf_counter()
    client.notify(
        "textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "cuda-cpp", "version": 1, "text": text}}
    )
    client.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": {"line": kernels[0], "character": 20}})
    found["open to first hover ms"] = round((time.perf_counter() - opened) * 1000)
    time.sleep(3)
    document = {"textDocument": {"uri": uri}}
    chosen = random.Random(1)
    for name, method in (("hover", "hover"), ("code lens", "codeLens"), ("code action", "codeAction")):
        times = []
        for _ in range(requests):
            line = chosen.choice(kernels)
            place: dict[str, Any] = dict(document)
            if method == "hover":
                place["position"] = {"line": line, "character": 20}
            if method == "codeAction":
                spot = {"line": line, "character": 20}
                place |= {"range": {"start": spot, "end": spot}, "context": {"diagnostics": []}}
            began = time.perf_counter()
            client.ask(f"textDocument/{method}", place)
            times.append((time.perf_counter() - began) * 1000)
        found[f"{name} ms"] = spread(times)
    found["diagnostics after an edit ms"] = spread(list(_edits(client, uri, kernels, max(5, requests // 10))))
    for number in range(9):
        other = (folder / f"other_{number}.cu").as_uri()
        item = {"uri": other, "languageId": "cuda-cpp", "version": 1, "text": text[: len(text) // 5]}
        client.notify("textDocument/didOpen", {"textDocument": item})
        client.ask("textDocument/hover", {"textDocument": {"uri": other}, "position": {"line": 1, "character": 20}})
    time.sleep(1)
    found["memory with ten files MiB"] = client.memory()
    client.close()
    return found


def _edits(client: Client, uri: str, kernels: list[int], count: int) -> Iterator[float]:
    """From the last keystroke to the diagnostics of that version (or, without versions, to the next ones)."""
    for version in range(2, count + 2):
        while not client.diagnostics.empty():
            client.diagnostics.get()
        place = {"line": kernels[version % len(kernels)] + 2, "character": 0}
        began = time.perf_counter()
        change = {"range": {"start": place, "end": place}, "text": " "}
        client.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": version}, "contentChanges": [change]},
        )
        with contextlib.suppress(Empty):
            while True:
                where, params = client.diagnostics.get(timeout=10)
                if where == uri and params.get("version", version) == version:
                    yield (time.perf_counter() - began) * 1000
                    break


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--clangd", default="clangd")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    copies = 5000 // KERNEL.count("\n") + 1
    text = "#include <cuda_runtime.h>\n" + "".join(KERNEL.format(number) for number in range(copies))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "server")])}
    results: dict[str, Any] = {"lines": text.count("\n"), "cores": os.cpu_count(), "search": arguments.search}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "large.cu").write_text(text)
        search = None
        if arguments.search:
            command = [sys.executable, "-m", "optiml_core", "optimize", str(ROOT / "examples" / "transpose.cu")]
            command += ["--device", "emulator", "--seconds", "600", "--fresh", "--progress", "none"]
            search = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(10)
        for server, command in (
            ("optiml", [sys.executable, "-m", "optiml_server.main"]),
            ("clangd", [arguments.clangd, "--background-index=false"]),
        ):
            results[f"load at {server}"] = round(os.getloadavg()[0], 1)
            try:
                results[server] = measure(command, folder, text, arguments.requests, environment)
            except (OSError, Empty) as error:
                results[server] = {"problem": f"{type(error).__name__} {error}"}
        if search is not None:
            results["the search still ran"] = search.poll() is None
            search.terminate()
            search.wait(30)
    print(json.dumps(results, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
