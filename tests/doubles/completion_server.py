"""A server that speaks just enough HTTP to misbehave on purpose: what the real llama-server cannot be made to do."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


@contextlib.contextmanager
def completion_server(answer: Answer, tokens: Callable[[str], object] = lambda text: {"tokens": list(text.encode())}):
    """Serve `/completion` by `answer` and `/tokenize` by `tokens` on a loopback port; yield the base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/tokenize":
                send(self, json.dumps(tokens(body["content"])), "application/json")
            else:
                answer(self, body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def send(handler: BaseHTTPRequestHandler, text: str, kind: str, status: int = 200) -> None:
    """Answer with a whole body."""
    content = text.encode()
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def begin_stream(handler: BaseHTTPRequestHandler) -> None:
    """Begin a stream of events that ends when the connection does."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.close_connection = True


def event(handler: BaseHTTPRequestHandler, data: str) -> None:
    """Send one event."""
    handler.wfile.write(f"data: {data}\n\n".encode())
    handler.wfile.flush()


def partial(predicted: int) -> str:
    """The event that llama-server sends after `predicted` tokens."""
    return json.dumps({"content": "x", "stop": False, "tokens_predicted": predicted})


def final(**timings: object) -> str:
    """The event that ends a stream."""
    return json.dumps(
        {"content": "", "stop": True, "tokens_predicted": timings.get("predicted_n", 0), "timings": timings}
    )
