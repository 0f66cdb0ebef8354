"""A webhook that keeps what it is told."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


class Webhook(ThreadingHTTPServer):
    """Keeps what it is told; `slow` never answers."""

    daemon_threads = True

    def __init__(self, status: int = 200, slow: bool = False) -> None:
        self.status, self.slow = status, slow
        self.bodies: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.over = Event()
        super().__init__(("127.0.0.1", 0), Receiver)
        Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook/T0K3N"

    def __exit__(self, *_: object) -> None:
        # Not closed alone: its thread would go on asking a socket that is gone, all the while.
        self.close()

    def close(self) -> None:
        self.over.set()
        self.shutdown()
        self.server_close()


class Receiver(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(body.decode())
        self.server.headers.append(dict(self.headers))
        if self.server.slow:
            self.server.over.wait(30)
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        return
