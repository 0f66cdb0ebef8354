"""A stand-in for a server: a main process, a child and an orphan in its session, as vLLM has.

server_stand_in.py [ignore-term] [leave-orphan] [escape] [gate=PATH] [say=N] [seconds=N] [exit=N]

gate: stay until there is such a file
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


def main() -> int:
    words = dict(word.partition("=")[::2] for word in sys.argv[1:])
    if "ignore-term" in words:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "leave-orphan" in words and os.fork() == 0:
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    if "escape" in words and os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    print(f"pid {os.getpid()} secret {'SECRET' in os.environ}", flush=True)
    print(f"bytecode {'PYTHONDONTWRITEBYTECODE' not in os.environ}", flush=True)
    while "gate" in words and not Path(words["gate"]).exists():
        time.sleep(0.02)
    for number in range(int(words.get("say") or 0)):
        print(f"line {number}", flush=True)
    time.sleep(float(words.get("seconds") or 600))
    return int(words.get("exit") or 0)


sys.exit(main())
