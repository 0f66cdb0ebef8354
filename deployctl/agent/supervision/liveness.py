"""Looks whether a supervised server still generates: the only proof of life is a completion.

With vLLM's engine stopped its /health answers 200 in a millisecond, and its gauges of requests
read 0. Verdicts: alive (a completion came) · busy (the engine makes progress for others) · starting
(it has not generated yet) · asleep (its engine was put to sleep) · silent (no answer in time) ·
unknown (an answer without a completion: a key is wanted, it is too busy).
"""

from __future__ import annotations

import json
import threading
import time
from typing import Callable, Dict, Optional, Tuple

from ..network.network import LONG_BODY, exchange
from ..wire.answers import HttpAnswer
from ..wire.liveness import Liveness, LivenessState, Look

ALIVE, BUSY, STARTING, ASLEEP = "alive", "busy", "starting", "asleep"
SILENT, UNKNOWN = "silent", "unknown"

PROGRESS = (
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",
)
"""What moves only while the engine works: tokens, and the memory of a long prompt."""
AWAKE = 'sleep_state="awake"'
PATIENCE = 5.0
"""Seconds that /metrics gets."""

Progress = Dict[str, float]
Verdict = Tuple[str, str]


class Watch:
    """Watches one process of a server in a thread of its own, while it is entered.

    `proven` says whether this process was proven to generate: before that it is asked nothing
    where it was never proven (None), and is not judged until it has generated once (False).
    `hung` becomes true once, and then the thread has ended.
    """

    def __init__(
        self,
        settings: Liveness,
        key: Optional[str],
        proven: Callable[[], Optional[bool]],
        restarts: int = 0,
    ) -> None:
        self._settings, self._proven = settings, proven
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = "Bearer " + key
        self._over = threading.Event()
        self._progress: Optional[Progress] = None
        self._generated = False
        self.hung = False
        self.state: LivenessState = {
            "on": True,
            "interval": settings["interval"],
            "allowed": settings["failures"],
            "last": None,
            "failures": 0,
            "restarts": restarts,
        }
        """Replaced as a whole, so that another thread reads one state or the next."""

    def __enter__(self) -> Watch:
        threading.Thread(target=self._run, name="liveness", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # A request under way is not waited for.
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self._settings["interval"]):
            proven = self._proven()
            if proven is None:
                continue
            try:
                verdict, why = self._look()
            except Exception as error:  # a watch that ended silently would look like a server alive
                verdict, why = UNKNOWN, repr(error)
            if self._over.is_set():
                return
            self._judge(verdict, why, proven)
            if self.hung:
                return

    def _look(self) -> Verdict:
        seen, before = self._progress, self._read()
        if before is not None and AWAKE in before and not before[AWAKE]:
            return ASLEEP, "its engine was put to sleep"
        if before is not None and before != seen:
            self._progress = before
            if seen is None:
                # Gates may be measuring: what is not necessary is not asked.
                return UNKNOWN, "nothing to compare with yet"
            return BUSY, "its engine works for others"
        answer = exchange(
            "POST",
            self._settings["url"] + "/v1/completions",
            headers=self._headers,
            body=json.dumps(
                {"model": self._settings["model"], "prompt": "1", "max_tokens": 1, "temperature": 0}
            ),
            timeout=self._settings["completion"],
        )
        self._progress = after = self._read()
        verdict = judged(answer)
        if verdict[0] == SILENT and before is not None and after is not None and after != before:
            return BUSY, "its engine works for others"
        return verdict

    def _read(self) -> Optional[Progress]:
        answer = exchange(
            "GET",
            self._settings["url"] + "/metrics",
            timeout=PATIENCE,
            limit=LONG_BODY,
        )
        return progress(answer["body"]) if answer["status"] == 200 else None

    def _judge(self, verdict: str, why: str, proven: bool) -> None:
        failures = self.state["failures"]
        if verdict in (ALIVE, BUSY):
            self._generated = True
        if verdict == SILENT and not (proven or self._generated):
            verdict = STARTING
        if verdict == SILENT:
            failures += 1
        elif verdict != UNKNOWN:
            failures = 0
        last: Look = {"time": time.time(), "verdict": verdict, "why": why}
        self.state = {**self.state, "last": last, "failures": failures}
        self.hung = failures >= self._settings["failures"]


def judged(answer: HttpAnswer) -> Verdict:
    """What the answer to a completion of one token says. Any answer breaks the silence: a server
    that refuses (401, 429, 503) is not restarted for it."""
    if answer["status"] is None:
        return SILENT, "no completion: %s" % answer["error"]
    if answer["status"] != 200:
        return UNKNOWN, "/v1/completions answers %d" % answer["status"]
    try:
        found = json.loads(answer["body"])["choices"]
    except (ValueError, KeyError, TypeError, RecursionError):
        found = None
    return (ALIVE, "") if found else (UNKNOWN, "an answer without a completion")


def progress(text: str) -> Optional[Progress]:
    """The sums of what moves with the engine's work, from a Prometheus exposition; None where it
    has none of it. Under `AWAKE`, whether any engine is awake, where that is known."""
    found: Progress = {}
    for line in text.splitlines():
        name = line.split("{", 1)[0].split(" ", 1)[0]
        if name in PROGRESS or (name == "vllm:engine_sleep_state" and AWAKE in line):
            key = name if name in PROGRESS else AWAKE
            try:
                found[key] = found.get(key, 0.0) + float(line.rsplit(None, 1)[1])
            except (ValueError, IndexError):
                continue
    return found if found.keys() & set(PROGRESS) else None
