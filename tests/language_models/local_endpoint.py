"""An endpoint on this machine that speaks the chat protocol for real: HTTP, streaming, errors, wrong answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field


@define
class Script:
    """What the endpoint does. ``answer(messages)`` gives the text; the rest are faults to commit."""

    answer: Callable[[list[dict[str, Any]]], str]
    status: int = 200
    body: bytes | None = None
    delay: float = 0.0
    delay_between: float = 0.0
    endless: bool = False
    cut: bool = False
    requests: list[dict[str, Any]] = field(factory=list)
    headers: list[dict[str, str]] = field(factory=list)
    status_once: int | None = None


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """Serves ``script`` on a free port of the loopback address; yields the base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            return

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            request = json.loads(self.rfile.read(length))
            script.requests.append(request)
            script.headers.append(dict(self.headers))
            time.sleep(script.delay)
            status = script.status
            if script.status_once is not None:
                status, script.status_once = script.status_once, None
            if status != 200 or script.body is not None:
                body = script.body if script.body is not None else b'{"error": {"message": "no"}}'
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            try:
                self._stream(script.answer(request["messages"]))
            except (BrokenPipeError, ConnectionResetError):
                return

        def _event(self, value: dict[str, Any]) -> None:
            self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
            self.wfile.flush()

        def _chunk(self, text: str, finish: str | None = None) -> dict[str, Any]:
            choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
            return {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}

        def _stream(self, text: str) -> None:
            for at in range(0, len(text), 40):
                self._event(self._chunk(text[at : at + 40]))
                time.sleep(script.delay_between)
            while script.endless:
                self._event(self._chunk("more " * 2000))
                time.sleep(script.delay_between)
            if script.cut:
                return
            self._event(self._chunk("", "stop"))
            usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
            self._event({**self._chunk(""), "choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
