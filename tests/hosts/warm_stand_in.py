"""A stand-in for the program that imports and waits: the same conversation, and a server of no use.

warm_stand_in.py wait FD — as `deployctl/vllm/serving/warm_launcher.py`. The command line that it is
told may hold `warm-fails`, `warm-hangs`, `deaf` (does not hear the word) and `dies` (at the word).
"""

from __future__ import annotations

import json
import os
import sys
import time

argv = json.loads(sys.stdin.readline())
out = os.fdopen(int(sys.argv[2]), "w")


def tell(**what: object) -> None:
    out.write(json.dumps(what) + "\n")
    out.flush()


print("warming", os.environ.get("SECRET"), flush=True)
if "warm-fails" in argv:
    sys.exit("no module named torch")
if "warm-hangs" in argv:
    time.sleep(600)
tell(seconds=0.1, missing=[], cuda=False)
if "deaf" in argv:
    time.sleep(600)
if sys.stdin.readline().strip() == "serve" and "dies" not in argv:
    tell(waited=0.1, method="spawn", reason="a stand-in")
    print("serving", flush=True)
    time.sleep(600)
