"""A client at a steady rate, half of whose requests are streams; it counts what failed.

python -m tests.hosts.served.steady PORT RATE MODEL SECONDS

It asks 127.0.0.1 until its input ends, and then prints what became of all requests as JSON. With
SECONDS above 0 each request takes about as long.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from typing import Any

LIMIT = 60.0
PIECES = 6


class Steady:
    """Requests at a steady rate, each in a thread of its own."""

    def __init__(self, port: int, model: str, seconds: float) -> None:
        self._port, self._model, self._seconds = port, model, seconds
        self._counting = threading.Lock()
        self.sent = 0
        self.failed: list[str] = []
        self.cut: list[str] = []

    def ask(self, stream: bool) -> None:
        began = time.strftime("%H:%M:%S")
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=LIMIT)
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "user", "content": f"Count to {began}."}],
            "max_tokens": 20,
            "stream": stream,
        }
        if self._seconds:
            how = "stand_in_pause" if stream else "stand_in_seconds"
            body[how] = self._seconds / PIECES if stream else self._seconds
        begun = False
        try:
            headers = {"Content-Type": "application/json"}
            path = "/v1/chat/completions"
            connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            begun = True
            text = answer.read().decode()
            if answer.status != 200:
                self._note(self.failed, f"{began} HTTP {answer.status}: {text[:200]}")
            elif stream and not text.rstrip().endswith("data: [DONE]"):
                self._note(self.cut, f"{began} ended with {text[-200:]!r}")
            elif not stream and not json.loads(text)["choices"]:
                self._note(self.failed, f"{began} {text[:200]}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            said = f"{began} {type(error).__name__}: {error}"
            self._note(self.cut if begun and stream else self.failed, said)
        finally:
            connection.close()

    def _note(self, where: list[str], said: str) -> None:
        with self._counting:
            where.append(said)


def _until_its_input_ends(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def main(port: int, rate: float, model: str, seconds: float) -> None:
    steady = Steady(port, model, seconds)
    over = threading.Event()
    threading.Thread(target=_until_its_input_ends, args=(over,), daemon=True).start()
    threads = []
    while not over.wait(1 / rate):
        steady.sent += 1
        thread = threading.Thread(target=steady.ask, args=(steady.sent % 3 != 0,))
        thread.start()
        threads.append(thread)
        if steady.sent == 1:
            print("asking", flush=True)
    for thread in threads:
        thread.join()
    found = {"sent": steady.sent, "failed": steady.failed, "cut": steady.cut}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
