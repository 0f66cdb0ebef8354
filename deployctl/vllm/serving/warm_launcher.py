"""Imports what a vLLM server imports, waits for the word, and is that server then.

Lies beside a unit's server and is run by the environment's Python, with the standard library and
the vLLM that was built there::

    python launcher.py wait FD

Standard input: one line with the server's command line (JSON), later one with the word `serve`;
its end is the end of this process. What it reports of itself goes to the descriptor as JSON lines:
once all is imported, and once the word was heard::

    seconds    of the imports
    missing    modules that this vLLM does not have, or that could not be imported
    opened_by  the module whose import called cuInit, if one did
    cuda       whether PyTorch initialised CUDA, and so held memory of a GPU
    devices    GPUs' device files that are open
    threads    of this process
    resident   bytes of memory
    forks      whether a forked child could use a GPU while this one waited; null: not tried
    method     how the server starts its engine and workers: `fork`, so that they inherit the
               imports, where this is a CUDA build and a forked child just used a GPU; else `spawn`
    reason     why not `fork`
    waited     seconds

With the word it calls vLLM's own command line. Nothing of vLLM is changed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

METHOD = "VLLM_WORKER_MULTIPROC_METHOD"
SERVER = (
    "vllm.entrypoints.cli.main",
    "vllm.entrypoints.cli.serve",
    "vllm.entrypoints.cli.benchmark.main",
    "vllm.entrypoints.cli.launch",
    "vllm.entrypoints.cli.openai",
    "vllm.entrypoints.cli.run_batch",
    "vllm.entrypoints.cli.collect_env",
    "vllm.entrypoints.cli.download_kernels",
    "vllm.entrypoints.cli.preload",
    "vllm.entrypoints.cli.snapshot",
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.launchers.api_server.entry",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.core",
    "vllm.v1.engine.core_client",
    "vllm.v1.engine.utils",
    "vllm.v1.executor.abstract",
    "vllm.v1.executor.uniproc_executor",
    "vllm.v1.executor.multiproc_executor",
    "vllm.transformers_utils.config",
    "vllm.transformers_utils.configs.speculators",
    "vllm.tokenizers",
    "vllm.model_executor.model_loader",
    "vllm.model_executor.models.config",
    "vllm.distributed.parallel_state",
    "uvicorn",
    "uvloop",
)
"""What the front of a server imports (0.20 to 0.33); a version has most of them."""
WORKER = (
    "vllm.v1.worker.gpu_worker",
    "vllm.v1.worker.gpu_model_runner",
    "vllm.v1.attention.backends.flash_attn",
    "vllm.v1.spec_decode.dflash",
)
"""What an engine and its workers import on a GPU; they inherit it where they are forked. No more
than was measured with fork (0.20.1): FlashInfer's backend initialises CUDA when it is imported."""
UVM = "/dev/nvidia-uvm"
"""Opened by cuInit, and neither by NVML nor by nvidia-smi."""
TRIED = 8.0
"""Seconds for a forked child to use a GPU; whoever says the word waits for 10."""


def modules(argv: list[str], cuda: bool) -> list[str]:
    """The modules that a server with this command line imports, as far as is known before."""
    found = [*SERVER, *(WORKER if cuda else ())]
    for config in configs(argv):
        if config.get("model_type"):
            found.append(f"transformers.models.{config['model_type']}")
        if cuda:
            found += filter(None, map(_module, config.get("architectures") or ()))
    return found


def configs(argv: list[str]) -> list[dict[str, Any]]:
    """The config.json of the target and of the drafter that a command line names."""
    places = argv[2:3]
    for option, value in pairwise(argv):
        if option == "--speculative-config":
            with suppress(ValueError, AttributeError):
                places.append(str(json.loads(value).get("model") or ""))
    found = []
    for place in places:
        with suppress(OSError, ValueError):
            config = json.loads((Path(place) / "config.json").read_text("utf-8"))
            found += [config] if isinstance(config, dict) else []
    return found


def _module(architecture: str) -> str:
    """Where vLLM has a model, by its own registry; empty where that does not say."""
    try:
        known = import_module("vllm.model_executor.models.registry").ModelRegistry.models
        return str(getattr(known.get(architecture), "module_name", ""))
    except Exception:
        return ""


def warm(argv: list[str]) -> dict[str, Any]:
    """Import all of them: the names of those that could not be, and of the one with which CUDA was
    initialised."""
    missing, opened = [], None
    for name in modules(argv, cuda_build()):
        try:
            import_module(name)
        except Exception as error:
            missing.append(f"{name}: {type(error).__name__}")
        if opened is None and UVM in open_devices():
            opened = name
    return {"missing": missing, "opened_by": opened}


def cuda_build() -> bool:
    """Whether the environment's PyTorch is one for CUDA."""
    try:
        return import_module("torch").version.cuda is not None
    except Exception:
        return False


def state() -> dict[str, Any]:
    """What must be known of this process before others are forked from it."""
    torch = sys.modules.get("torch")
    return {
        "cuda": bool(torch is not None and torch.cuda.is_initialized()),
        "devices": open_devices(),
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "resident": int(Path("/proc/self/statm").read_text().split()[1])
        * os.sysconf("SC_PAGESIZE"),
    }


def open_devices(fds: str = "/proc/self/fd") -> list[str]:
    """Device files of NVIDIA GPUs that this process has open."""
    found = set()
    for fd in Path(fds).iterdir():
        with suppress(OSError):
            target = str(fd.readlink())
            if target.startswith("/dev/nvidia"):
                found.add(target)
    return sorted(found)


def tried(cuda: bool) -> bool | None:
    """Whether a forked child can use a GPU, tried while something else serves, when nothing waits
    for it. None where that decides nothing."""
    if os.environ.get(METHOD) or cuda or not cuda_build() or UVM not in open_devices():
        return None
    return forked_uses_cuda()


def method(cuda: bool, forks: bool | None = None) -> dict[str, str]:
    """How the server is to start its engine: set in the environment, and reported. `forks` is what
    was tried before: a child that found no memory then is tried again."""
    given = os.environ.get(METHOD)
    if given:
        return {"method": given, "reason": f"{METHOD} is set"}
    if not cuda_build():
        return {"method": "spawn", "reason": "not a CUDA build"}
    if cuda:
        os.environ[METHOD] = "spawn"
        return {"method": "spawn", "reason": "CUDA was initialised"}
    # Where cuInit was not called, a forked child is as good as any process.
    if UVM in open_devices() and not (forks or forked_uses_cuda()):
        os.environ[METHOD] = "spawn"
        return {"method": "spawn", "reason": "a forked child cannot use CUDA"}
    os.environ[METHOD] = "fork"
    return {"method": "fork"}


def forked_uses_cuda() -> bool:
    """Whether a child of this process can use a GPU. Tried, since an import may have called cuInit
    (vLLM 0.20.1 opens /dev/nvidia-uvm so), and whether that hurts is the driver's to say."""
    child = os.fork()
    if child == 0:
        try:
            import_module("torch").zeros(1, device="cuda")
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    handle = os.pidfd_open(child)
    ended, _, _ = select.select([handle], [], [], TRIED)
    os.close(handle)
    if not ended:
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1] == 0


def main() -> None:
    """Wait, and serve; ends without the word."""
    word, number = sys.argv[1:]
    if word != "wait":
        raise SystemExit(f"unknown word: {word}")
    # As for the program `vllm`, which stands beside the interpreter.
    sys.path[0] = str(Path(sys.executable).parent)
    argv = json.loads(sys.stdin.readline())
    out = os.fdopen(int(number), "w", encoding="utf-8")
    began = time.monotonic()
    imported = warm(argv)
    warmed = time.monotonic()

    def tell(**what: Any) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    before = state()
    forks = tried(before["cuda"])
    tell(seconds=round(warmed - began, 2), **imported, **before, forks=forks)
    if sys.stdin.readline().strip() != "serve":
        return
    now = state()
    tell(waited=round(time.monotonic() - warmed, 2), **now, **method(now["cuda"], forks))
    out.close()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    with suppress(OSError):
        # As people, and programs, know a server.
        Path("/proc/self/comm").write_text("vllm")
    sys.argv = argv
    sys.exit(import_module("vllm.entrypoints.cli.main").main())


# Where engine and workers are spawned, each imports this module again.
if __name__ == "__main__":
    main()
