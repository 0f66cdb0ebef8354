"""Rehearse several starts with one import of vLLM: a process of its own for each, by fork.

    python rehearse_many.py LAUNCHER <one JSON list of arguments a line

The launcher itself does what it does for one start; answers come as it gives them, one a line.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any


def main() -> int:
    spec = importlib.util.spec_from_file_location("launcher", sys.argv[1])
    assert spec is not None and spec.loader is not None
    launcher = importlib.util.module_from_spec(spec)
    sys.modules["launcher"] = launcher
    spec.loader.exec_module(launcher)
    importlib.import_module("vllm.entrypoints.cli.main")
    importlib.import_module("vllm.engine.arg_utils")
    out = os.dup(1)
    os.dup2(2, 1)

    def tell(answer: dict[str, Any]) -> None:
        os.write(out, f"{json.dumps(answer)}\n".encode())

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(launcher.Rehearsal(tell).run(json.loads(line)))
        os.waitpid(child, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
