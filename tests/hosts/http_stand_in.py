"""A stand-in for a server of models, started as a program: what it answers is told by its words.

    http_stand_in.py PORT WORD…

generate (answers completions) · silent (never answers them) · empty (answers without tokens) ·
broken (500, then the process ends) · ends (the process ends with the request) · no-usage (answers
without a count of tokens) · sick-STATUS (of /health, each answer with a line of an access log) ·
key (401 without one) · other-name · engine-dead (health 503) · late-bind (says that it started,
then fails to bind as vLLM does)
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = sys.argv[2:]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        sick = next((word[5:] for word in WORDS if word.startswith("sick-")), "")
        if self.path == "/health" and sick:
            print(f'INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" {sick}', flush=True)
            return self.say(int(sick), {})
        if self.path == "/health":
            return self.say(503 if "engine-dead" in WORDS else 200, {})
        if "key" in WORDS and self.headers.get("Authorization") != "Bearer open":
            return self.say(401, {"error": "Unauthorized"})
        name = "another" if "other-name" in WORDS else "tiny"
        return self.say(200, {"object": "list", "data": [{"id": name, "object": "model"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "silent" in WORDS:
            time.sleep(600)
        if "ends" in WORDS:
            os._exit(0)
        if "broken" in WORDS:
            self.say(500, {"error": "EngineCore encountered an issue"})
            print(
                "(EngineCore pid=1) ERROR 01-01 00:00:00 [core.py:1] ValueError: DFlash drafter "
                "expects 192 concatenated aux hidden features but received 128.",
                flush=True,
            )
            threading.Timer(0.5, os._exit, (0,)).start()
            return None
        tokens = 0 if "empty" in WORDS else 4
        choice = {"index": 0, "text": "" if "empty" in WORDS else "pass", "finish_reason": "length"}
        usage = {"prompt_tokens": 3, "completion_tokens": tokens, "total_tokens": 3 + tokens}
        counted = {} if "no-usage" in WORDS else {"usage": usage}
        return self.say(200, {"model": "tiny", "choices": [choice], **counted})

    def say(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    daemon_threads = True


def main() -> int:
    if "late-bind" in WORDS:
        print("INFO:     Application startup complete.", flush=True)
        time.sleep(1)
    try:
        server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
    except OSError as error:
        print(
            f"ERROR:    [Errno {error.errno}] error while attempting to bind on address "
            f"('127.0.0.1', {sys.argv[1]}): address already in use",
            flush=True,
        )
        return 1
    print("INFO:     Application startup complete.", flush=True)
    server.serve_forever()
    return 0


sys.exit(main())
